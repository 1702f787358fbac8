"""The filter of system calls, run in an interpreter of its own: also for machines that are not at hand."""

from __future__ import annotations

import struct

import pytest

from anabranch.handlers.sandbox.inside import seccomp
from anabranch.handlers.sandbox.inside.seccomp import ALLOW, KILL_PROCESS, MACHINES, PROT_EXEC, REFUSE, Machine, program

PROT_READ_WRITE = 3


def answer(machine: Machine, number: int, *, arch: int | None = None, third: int = 0) -> int:
    """What the kernel would do with a call, by the rules of classic BPF."""
    data = struct.pack(
        "=iIQ6Q", number if number < 2**31 else number - 2**32, arch or machine.audit_arch, 0, 0, 0, third, 0, 0, 0
    )
    steps = list(struct.iter_unpack("=HBBI", program(machine)))
    accumulator = position = 0
    while True:
        code, if_true, if_false, operand = steps[position]
        position += 1
        if code == seccomp.LOAD:
            (accumulator,) = struct.unpack_from("=I", data, operand)
        elif code == seccomp.JUMP_IF_EQUAL:
            position += if_true if accumulator == operand else if_false
        elif code == seccomp.JUMP_IF_BITS:
            position += if_true if accumulator & operand else if_false
        elif code == seccomp.RETURN:
            return operand
        else:
            raise AssertionError(f"an instruction that the filter should not need: {code:#x}")


# Calls that open, connect, start, signal, trace or change rights, by the kernel's own tables.
FORBIDDEN = {
    "x86_64": {
        "open": 2, "stat": 4, "ioctl": 16, "pipe": 22, "shmget": 29, "dup": 32, "socket": 41, "connect": 42,
        "sendmsg": 46, "recvmsg": 47, "bind": 49, "clone": 56, "fork": 57, "vfork": 58, "execve": 59, "kill": 62,
        "fcntl": 72, "unlink": 87, "ptrace": 101, "setuid": 105, "prctl": 157, "setrlimit": 160, "mount": 165,
        "tkill": 200, "io_setup": 206, "tgkill": 234, "openat": 257, "unshare": 272, "perf_event_open": 298,
        "prlimit64": 302, "process_vm_readv": 310, "seccomp": 317, "memfd_create": 319, "bpf": 321, "execveat": 322,
        "userfaultfd": 323, "pkey_mprotect": 329, "io_uring_setup": 425, "pidfd_open": 434, "clone3": 435,
        "openat2": 437, "pidfd_getfd": 438, "landlock_create_ruleset": 444,
    },
    "aarch64": {
        "io_setup": 0, "dup": 23, "fcntl": 25, "ioctl": 29, "unlinkat": 35, "mount": 40, "openat": 56, "unshare": 97,
        "ptrace": 117, "kill": 129, "tkill": 130, "tgkill": 131, "setuid": 146, "setrlimit": 164, "prctl": 167,
        "shmget": 194, "socket": 198, "bind": 200, "connect": 203, "sendmsg": 211, "recvmsg": 212, "clone": 220,
        "execve": 221, "perf_event_open": 241, "prlimit64": 261, "process_vm_readv": 270, "seccomp": 277,
        "memfd_create": 279, "bpf": 280, "execveat": 281, "userfaultfd": 282, "pkey_mprotect": 288,
        "io_uring_setup": 425, "pidfd_open": 434, "clone3": 435, "openat2": 437, "landlock_create_ruleset": 444,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", MACHINES)
def test_exactly_the_listed_calls_are_allowed(name: str):
    machine = MACHINES[name]
    allowed = {number for number in range(1_024) if answer(machine, number) == ALLOW}
    assert allowed == set(machine.calls.values())
    assert all(answer(machine, number) == REFUSE for number in range(1_024) if number not in allowed)


@pytest.mark.parametrize("name", MACHINES)
def test_nothing_that_opens_connects_starts_or_signals_is_allowed(name: str):
    machine = MACHINES[name]
    assert {call for call, number in FORBIDDEN[name].items() if answer(machine, number) != REFUSE} == set()


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("call", ["mmap", "mprotect"])
def test_no_memory_becomes_executable(name: str, call: str):
    machine = MACHINES[name]
    assert answer(machine, machine.calls[call], third=PROT_READ_WRITE) == ALLOW
    assert answer(machine, machine.calls[call], third=PROT_READ_WRITE | PROT_EXEC) == REFUSE


@pytest.mark.parametrize("name", MACHINES)
def test_a_call_by_another_machines_numbers_ends_the_process(name: str):
    machine = MACHINES[name]
    i386 = 0x4000_0003
    assert answer(machine, machine.calls["read"], arch=i386) == KILL_PROCESS


def test_the_second_set_of_calls_of_x86_ends_the_process():
    machine = MACHINES["x86_64"]
    assert answer(machine, 0x4000_0000 | machine.calls["read"]) == KILL_PROCESS
    assert answer(machine, 0xFFFF_FFFF) == KILL_PROCESS


def test_both_machines_allow_the_same_but_for_what_only_one_has():
    x86, arm = (set(MACHINES[name].calls) for name in ("x86_64", "aarch64"))
    assert x86 - arm == {"poll"}
    assert arm - x86 == set()
    assert x86 == {*seccomp.ALLOWED, *seccomp.ALLOWED_WITHOUT_EXEC}
