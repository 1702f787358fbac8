"""The Socket.IO door: what runs are doing, live."""

from anabranch.sockets.server import SocketDoor, attach
from anabranch.sockets.wire import HAS_SHOWN_KEY

__all__ = ["HAS_SHOWN_KEY", "SocketDoor", "attach"]
