"""Harden a process: give up rights and resources, in order, for good.

Called by the fork server (`isolate`) and by each child (`harden`, then `seal`). Needs only the C library, through
ctypes. A measure that this machine lacks is skipped and reported; the reader of the report decides which are
indispensable. The order matters: what needs a right comes before that right is given up, and the system call filter,
which forbids all of it, comes last.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
from collections.abc import Callable

from anabranch.handlers.sandbox.inside import seccomp

Report = dict[str, str]
"""Layer → `yes`, with what is to be said of it, or `no (why)`."""

# Users that own nothing: far above those that systems give out; one per child that runs at a time.
UID_BASE = 2_000_000_000
UIDS = 1_024
UID_NOBODY = 65_534

# 16 descriptors: a child has one. No new ones can be made anyway.
FILES_MAX = 16

# 5 steps below the service, which has to stay awake while children compute.
NICENESS = 5

# Far above any descriptor that a fork server can have.
_DESCRIPTORS_END = 65_536

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 24, 38
_SECCOMP_MODE_FILTER = 2
_CLONE_NEWUTS, _CLONE_NEWIPC, _CLONE_NEWUSER, _CLONE_NEWNET = 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x4000_0000
_CAPABILITY_VERSION_3 = 0x2008_0522
_CAPSET = {"x86_64": 126, "aarch64": 91}
# The same on every machine, for they are newer than the numbering by machine.
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446
_LANDLOCK_VERSION_FLAG = 1
# Rights to files that a Landlock of this version knows: each may be taken away only where it is known.
_LANDLOCK_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
_LANDLOCK_FILE_RIGHTS_NEWEST = 16
_LANDLOCK_NET_VERSION, _LANDLOCK_SCOPE_VERSION = 4, 6

_libc = ctypes.CDLL(None, use_errno=True)


def isolate(report: Report) -> None:
    """Leave the host's network, IPC and names. Done once by the fork server: its children inherit it."""
    spaces = _CLONE_NEWNET | _CLONE_NEWIPC | _CLONE_NEWUTS
    _attempt(report, "namespaces", lambda: _unshare(spaces if os.geteuid() == 0 else spaces | _CLONE_NEWUSER))


def harden(report: Report, *, keep: int, slot: int, parent: int) -> None:
    """Everything but the filter of system calls and the limits of the job, which `seal` adds.

    `keep` is the one descriptor that stays open; this process does not outlive `parent`.
    """
    os.umask(0o077)
    os.setsid()
    os.nice(NICENESS)
    _close_all_but(keep)
    _attempt(report, "uid", lambda: _drop_user(slot))
    # After the change of user: the kernel forgets it then.
    _attempt(report, "pdeathsig", lambda: _die_with(parent))
    for limit in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC, resource.RLIMIT_MEMLOCK):
        resource.setrlimit(limit, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_MAX, FILES_MAX))
    report["rlimits"] = "yes"
    _attempt(report, "capabilities", _drop_capabilities)
    _attempt(report, "dumpable", lambda: _prctl(_PR_SET_DUMPABLE, 0))
    _attempt(report, "no_new_privs", lambda: _prctl(_PR_SET_NO_NEW_PRIVS, 1))
    _attempt(report, "landlock", _forbid_files_and_ports)


def seal(report: Report, *, address_bytes: int, cpu_seconds: int) -> None:
    """The limits of one job (0: none), and the filter of system calls. Nothing can be taken back."""
    if cpu_seconds:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    if address_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (address_bytes, address_bytes))
    _attempt(report, "seccomp", _filter_system_calls)


def _attempt(report: Report, layer: str, build: Callable[[], str | None]) -> None:
    try:
        report[layer] = build() or "yes"
    except (OSError, ValueError, AttributeError) as refusal:
        report[layer] = f"no ({_reason(refusal)})"


def _reason(refusal: Exception) -> str:
    return os.strerror(refusal.errno) if isinstance(refusal, OSError) and refusal.errno else str(refusal)


def _unshare(spaces: int) -> None:
    _check(_libc.unshare(spaces))


def _close_all_but(keep: int) -> None:
    os.closerange(0, keep)
    os.closerange(keep + 1, _DESCRIPTORS_END)


def _drop_user(slot: int) -> str:
    if os.geteuid() != 0:
        return f"no (not root, still {os.geteuid()})"
    os.setgroups([])
    own = UID_BASE + slot % UIDS
    try:
        os.setresgid(own, own, own)
        os.setresuid(own, own, own)
    except OSError:  # a container may have no room for so high a number
        os.setresgid(UID_NOBODY, UID_NOBODY, UID_NOBODY)
        os.setresuid(UID_NOBODY, UID_NOBODY, UID_NOBODY)
    return f"yes ({os.geteuid()})"


def _die_with(parent: int) -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we could register for its death
        os._exit(0)


def _drop_capabilities() -> None:
    """None in any set; only a fork server in a user namespace of its own, or whose user could not change, has some."""
    number = _CAPSET.get(platform.machine())
    if number is None:
        raise ValueError(f"no table for {platform.machine()}")
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    nothing = bytes(24)
    _check(_libc.syscall(ctypes.c_long(number), ctypes.c_char_p(header), ctypes.c_char_p(nothing)))


def _forbid_files_and_ports() -> str:
    create, restrict = ctypes.c_long(_LANDLOCK_CREATE), ctypes.c_long(_LANDLOCK_RESTRICT)
    version = _check(_libc.syscall(create, None, ctypes.c_size_t(0), ctypes.c_uint(_LANDLOCK_VERSION_FLAG)))
    rights = _LANDLOCK_FILE_RIGHTS.get(version, _LANDLOCK_FILE_RIGHTS_NEWEST)
    net = 0b11 if version >= _LANDLOCK_NET_VERSION else 0
    scoped = 0b11 if version >= _LANDLOCK_SCOPE_VERSION else 0
    size = 24 if version >= _LANDLOCK_SCOPE_VERSION else 16 if version >= _LANDLOCK_NET_VERSION else 8
    wanted = struct.pack("=QQQ", (1 << rights) - 1, net, scoped)
    ruleset = _check(_libc.syscall(create, ctypes.c_char_p(wanted), ctypes.c_size_t(size), ctypes.c_uint(0)))
    try:
        _check(_libc.syscall(restrict, ctypes.c_int(ruleset), ctypes.c_uint(0)))
    finally:
        os.close(ruleset)
    return f"yes (version {version})"


def _filter_system_calls() -> None:
    if _FILTER is None:
        raise ValueError(f"no table for {platform.machine()}")
    _check(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(_FILTER), _ZERO, _ZERO))


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _filter_of_this_machine() -> _Filter | None:
    machine = seccomp.MACHINES.get(platform.machine())
    if machine is None:
        return None
    instructions = seccomp.program(machine)
    return _Filter(len(instructions) // 8, instructions)


def _prctl(option: int, value: int) -> None:
    _check(_libc.prctl(option, ctypes.c_ulong(value), _ZERO, _ZERO, _ZERO))


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


# Created once before any fork, so that children need not.
_ZERO = ctypes.c_ulong(0)
_FILTER = _filter_of_this_machine()
