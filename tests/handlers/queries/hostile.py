"""Servers that try to exhaust the memory or the time of their clients. A program: run as a process of its own.

    python hostile.py BEHAVIOUR

It prints its port and plays the named behaviour to everybody who connects, until it is killed.
"""

from __future__ import annotations

import itertools
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator

CHUNK = b"x" * 65_536
GIGABYTES = 1_900_000_000

Play = Callable[[socket.socket], None]


# -- PostgreSQL ----------------------------------------------------------------------------------
def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def start_up(peer: socket.socket) -> None:
    """Read what a client says first; no TLS here."""
    while True:
        (length,) = struct.unpack("!i", exactly(peer, 4))
        body = exactly(peer, length - 4)
        if struct.unpack("!i", body[:4])[0] in (80877103, 80877104):
            peer.sendall(b"N")
        else:
            return


def let_in(peer: socket.socket) -> None:
    start_up(peer)
    settings = {"server_version": "16.0", "client_encoding": "UTF8", "standard_conforming_strings": "on"}
    parameters = b"".join(message(b"S", f"{name}\0{value}\0".encode()) for name, value in settings.items())
    peer.sendall(message(b"R", struct.pack("!i", 0)) + parameters + message(b"K", struct.pack("!ii", 1, 2)) + READY)


READY = message(b"Z", b"I")
BEGUN = message(b"Z", b"T")


def columns(*names: str, type_id: int = 25) -> bytes:
    described = b"".join(name.encode() + b"\0" + struct.pack("!ihihih", 0, 0, type_id, -1, -1, 0) for name in names)
    return message(b"T", struct.pack("!h", len(names) - (65_536 if len(names) > 32_767 else 0)) + described)


def row(*values: bytes | None) -> bytes:
    fields = b"".join(
        struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value for value in values
    )
    return message(b"D", struct.pack("!h", len(values)) + fields)


def asked(peer: socket.socket) -> Iterator[bytes]:
    """Go along with everything up to the query of the saved statement."""
    while True:
        kind = exactly(peer, 1)
        (length,) = struct.unpack("!i", exactly(peer, 4))
        body = exactly(peer, length - 4)
        if kind == b"Q" and b"RECURSIVE" in body:  # what the role may do: nothing much
            peer.sendall(columns("a", "b", type_id=23) + row(b"0", None) + message(b"C", b"SELECT 1\0") + BEGUN)
        elif kind == b"Q":
            peer.sendall(message(b"C", b"BEGIN\0") + BEGUN)
        elif kind == b"S":
            yield body


def answering(answer: Play) -> Play:
    def play(peer: socket.socket) -> None:
        let_in(peer)
        for _ in asked(peer):
            peer.sendall(message(b"1", b"") + message(b"2", b""))
            answer(peer)
            return

    return play


def one_huge_row(peer: socket.socket) -> None:
    peer.sendall(columns("a") + b"D" + struct.pack("!ihi", GIGABYTES + 10, 1, GIGABYTES))
    endless(peer, itertools.repeat(CHUNK))


def rows_without_end(peer: socket.socket) -> None:
    peer.sendall(columns("a"))
    endless(peer, itertools.repeat(row(b"x" * 9_000_000)))


def wide_without_end(peer: socket.socket) -> None:
    endless(peer, itertools.repeat(columns(*(["c" * 5_000] * 65_535))))


def notices(peer: socket.socket) -> None:
    endless(peer, itertools.repeat(message(b"N", b"SNOTICE\0C00000\0M" + b"n" * 1_000_000 + b"\0\0")))


def huge_error(peer: socket.socket) -> None:
    peer.sendall(b"E" + struct.pack("!i", GIGABYTES) + b"SERROR\0C42000\0M")
    endless(peer, itertools.repeat(CHUNK))


def parameters(peer: socket.socket) -> None:
    endless(peer, (message(b"S", f"p{number}\0".encode() + b"v" * 20_000 + b"\0") for number in itertools.count()))


def copies(peer: socket.socket) -> None:
    peer.sendall(message(b"H", struct.pack("!bh", 0, 0)))
    endless(peer, itertools.repeat(message(b"d", CHUNK * 10)))


def brackets(peer: socket.socket) -> None:
    """Ten megabytes of JSON that are hundreds in Python."""
    text = b"[" + b"[]," * 3_300_000 + b"0]"
    peer.sendall(columns("a", type_id=114) + row(text) + message(b"C", b"SELECT 1\0") + READY)
    endless(peer, silence())


def few_letters_in_many_bytes(peer: socket.socket) -> None:
    """One character beyond the basic plane makes four bytes of each of the others."""
    text = b"x" * 10_000_000 + "\U0001f600".encode()
    peer.sendall(columns("a") + row(text) + message(b"C", b"SELECT 1\0") + READY)
    endless(peer, silence())


def huge_authentication(peer: socket.socket) -> None:
    start_up(peer)
    peer.sendall(b"R" + struct.pack("!ii", GIGABYTES, 10))
    endless(peer, itertools.repeat(CHUNK))


def parameters_before_the_door(peer: socket.socket) -> None:
    start_up(peer)
    peer.sendall(message(b"R", struct.pack("!i", 0)))
    parameters(peer)


def huge_refusal(peer: socket.socket) -> None:
    start_up(peer)
    huge_error(peer)


def drip(peer: socket.socket) -> None:
    start_up(peer)
    peer.sendall(b"R" + struct.pack("!i", 20_000))
    endless(peer, silence(b"x"))


# -- MySQL ---------------------------------------------------------------------------------------
def packet(body: bytes, number: int) -> bytes:
    return struct.pack("<I", len(body))[:3] + bytes([number % 256]) + body


GREETING = (
    b"\x0a10.11.0-MariaDB\0" + struct.pack("<I", 1) + b"saltsalt\0" + struct.pack("<HBHHB", 0xF7FF, 45, 2, 0x000F, 21)
    + b"\0" * 10 + b"saltsaltsalt\0" + b"mysql_native_password\0"
)  # fmt: skip
OK = b"\x00\x00\x00\x02\x00\x00\x00"


def packets_without_end(peer: socket.socket, number: int = 0) -> None:
    full = b"x" * 0xFFFFFF
    endless(peer, (packet(full, each) for each in itertools.count(number)))


def mysql_drip(peer: socket.socket) -> None:
    peer.sendall(struct.pack("<I", 0xFFFFFF)[:3] + b"\0")
    endless(peer, silence(b"x"))


def mysql_answer_without_end(peer: socket.socket) -> None:
    peer.sendall(packet(GREETING, 0))
    mysql_packet(peer)
    peer.sendall(packet(OK, 2))
    while b"SELECT count(*)" not in mysql_packet(peer):
        peer.sendall(packet(OK, 1))
    packets_without_end(peer, 1)


def mysql_packet(peer: socket.socket) -> bytes:
    (length,) = struct.unpack("<I", exactly(peer, 4)[:3] + b"\0")
    return exactly(peer, length)


# -- both ----------------------------------------------------------------------------------------
def exactly(peer: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        part = peer.recv(size - len(found))
        if not part:
            raise ConnectionError("the client has gone")
        found += part
    return bytes(found)


def endless(peer: socket.socket, parts: Iterator[bytes]) -> None:
    for part in parts:
        peer.sendall(part)


def silence(word: bytes = b"") -> Iterator[bytes]:
    """A byte now and then, so that no wait for the next one is long."""
    while True:
        time.sleep(0.2)
        yield word


BEHAVIOURS: dict[str, Play] = {
    "one huge row": answering(one_huge_row),
    "rows without end": answering(rows_without_end),
    "columns without end": answering(wide_without_end),
    "notices without end": answering(notices),
    "a huge error": answering(huge_error),
    "parameters without end": answering(parameters),
    "copies without end": answering(copies),
    "brackets": answering(brackets),
    "letters of four bytes": answering(few_letters_in_many_bytes),
    "a huge authentication": huge_authentication,
    "parameters before the API": parameters_before_the_door,
    "a huge refusal": huge_refusal,
    "a drip": drip,
    "mysql: a greeting without end": packets_without_end,
    "mysql: an answer without end": mysql_answer_without_end,
    "mysql: a drip": mysql_drip,
}


def main(name: str) -> None:
    def play(peer: socket.socket) -> None:
        with peer:
            try:
                BEHAVIOURS[name](peer)
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as server:
        sys.stdout.write(f"{server.getsockname()[1]}\n")
        sys.stdout.flush()
        while True:
            peer, _ = server.accept()
            threading.Thread(target=play, args=(peer,), daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1])
