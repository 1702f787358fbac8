"""Long-running processes (serve, worker, dev): listen, run, stop.

Called by the commands `serve`, `worker` and `dev`; connects the composition root with the APIs.
"""

from anabranch.process.acceptor import accepting
from anabranch.process.connection import ClientTimeouts
from anabranch.process.listening import bind, is_loopback, url_of
from anabranch.process.process_lifecycle import execute, health_api, live, run
from anabranch.process.stop_signals import ended_by_sigterm
from anabranch.process.supervisor import Supervisor

__all__ = [
    "ClientTimeouts",
    "Supervisor",
    "accepting",
    "bind",
    "ended_by_sigterm",
    "execute",
    "health_api",
    "is_loopback",
    "live",
    "run",
    "url_of",
]
