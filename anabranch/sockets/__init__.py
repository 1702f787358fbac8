"""The Socket.IO server: live progress of runs."""

from anabranch.sockets.server import SocketServer

__all__ = ["SocketServer"]
