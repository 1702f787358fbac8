"""The Socket.IO server: what runs are doing, live."""

from anabranch.sockets.server import SocketServer, attach

__all__ = ["SocketServer", "attach"]
