"""The Socket.IO door: what runs are doing, live."""

from anabranch.sockets.server import SocketDoor, attach

__all__ = ["SocketDoor", "attach"]
