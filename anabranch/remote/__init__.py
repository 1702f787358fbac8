"""anabranch on a server, for programs: the verbs of workflows and runs over REST.

Called by the command line (`--url`) and by clients in Python. Light: it knows REST and the rules of
values and times, no engine, no database and no settings.
"""

from anabranch.remote.service import RemoteService, StartedRun

__all__ = ["RemoteService", "StartedRun"]
