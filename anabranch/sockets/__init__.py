"""The Socket.IO server: live progress of runs."""

from anabranch.sockets.server import SocketServer, attach

__all__ = ["SocketServer", "attach"]
