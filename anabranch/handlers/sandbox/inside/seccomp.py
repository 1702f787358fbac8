"""The system calls that a child may make, as a seccomp filter program.

Pure: `hardening` installs what `program` returns, and tests run it in an interpreter of such programs, also for other
architectures. A call that is not listed fails with EPERM; one with the numbers of another architecture ends the
process.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping
from dataclasses import dataclass

# Enough for an interpreter that computes and talks on one socket: nothing here opens, connects, starts, signals or
# traces anything. The most frequent ones come first, because the filter is a list.
ALLOWED = (
    "read", "write", "recvfrom", "sendto", "futex", "brk", "mremap", "munmap", "madvise",
    "clock_gettime", "gettimeofday", "getrandom", "close", "fstat", "poll", "ppoll", "lseek", "writev",
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "sched_yield", "nanosleep", "clock_nanosleep",
    "getpid", "gettid", "getrusage", "times", "membarrier", "rseq", "restart_syscall", "exit", "exit_group",
)  # fmt: skip

# Memory may be mapped and protected, but never become executable.
ALLOWED_WITHOUT_EXEC = ("mmap", "mprotect")

PROT_EXEC = 4

ALLOW = 0x7FFF_0000
REFUSE = 0x0005_0000 | errno.EPERM
KILL_PROCESS = 0x8000_0000


@dataclass(frozen=True, slots=True)
class Machine:
    """A processor as the kernel's filters see it: its audit number and its system calls."""

    audit_arch: int
    calls: Mapping[str, int]
    x32_bit: int = 0
    """Numbers with this bit belong to a second set of calls (x32), which is refused."""


# fmt: off
MACHINES: Mapping[str, Machine] = {
    "x86_64": Machine(0xC000_003E, {
        "read": 0, "write": 1, "close": 3, "fstat": 5, "poll": 7, "lseek": 8, "mmap": 9, "mprotect": 10, "munmap": 11,
        "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "writev": 20, "sched_yield": 24,
        "mremap": 25, "madvise": 28, "nanosleep": 35, "getpid": 39, "sendto": 44, "recvfrom": 45, "exit": 60,
        "gettimeofday": 96, "getrusage": 98, "times": 100, "sigaltstack": 131, "gettid": 186, "futex": 202,
        "restart_syscall": 219, "clock_gettime": 228, "clock_nanosleep": 230, "exit_group": 231, "ppoll": 271,
        "getrandom": 318, "membarrier": 324, "rseq": 334,
    }, x32_bit=0x4000_0000),
    "aarch64": Machine(0xC000_00B7, {
        "read": 63, "write": 64, "close": 57, "fstat": 80, "ppoll": 73, "lseek": 62, "mmap": 222, "mprotect": 226,
        "munmap": 215, "brk": 214, "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "writev": 66,
        "sched_yield": 124, "mremap": 216, "madvise": 233, "nanosleep": 101, "getpid": 172, "sendto": 206,
        "recvfrom": 207, "exit": 93, "gettimeofday": 169, "getrusage": 165, "times": 153, "sigaltstack": 132,
        "gettid": 178, "futex": 98, "restart_syscall": 128, "clock_gettime": 113, "clock_nanosleep": 115,
        "exit_group": 94, "getrandom": 278, "membarrier": 283, "rseq": 293,
    }),
}
# fmt: on

# The instructions of classic BPF that the filter is made of.
LOAD = 0x20
JUMP_IF_EQUAL = 0x15
JUMP_IF_BITS = 0x45
RETURN = 0x06

# Where the filter finds the call's number, its machine, and the low half of its third argument.
_NUMBER, _ARCH, _THIRD_ARGUMENT = 0, 4, 32

_INSTRUCTION = struct.Struct("=HBBI")


def program(machine: Machine) -> bytes:
    """The filter for a machine, eight bytes an instruction."""
    steps = [
        (LOAD, 0, 0, _ARCH),
        (JUMP_IF_EQUAL, 1, 0, machine.audit_arch),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD, 0, 0, _NUMBER),
    ]
    if machine.x32_bit:
        steps += [(JUMP_IF_BITS, 0, 1, machine.x32_bit), (RETURN, 0, 0, KILL_PROCESS)]
    for name in ALLOWED:
        if name in machine.calls:  # aarch64 has no poll
            steps += [(JUMP_IF_EQUAL, 0, 1, machine.calls[name]), (RETURN, 0, 0, ALLOW)]
    for name in ALLOWED_WITHOUT_EXEC:
        steps += [
            (JUMP_IF_EQUAL, 0, 4, machine.calls[name]),
            (LOAD, 0, 0, _THIRD_ARGUMENT),
            (JUMP_IF_BITS, 0, 1, PROT_EXEC),
            (RETURN, 0, 0, REFUSE),
            (RETURN, 0, 0, ALLOW),
        ]
    steps.append((RETURN, 0, 0, REFUSE))
    return b"".join(_INSTRUCTION.pack(*step) for step in steps)
