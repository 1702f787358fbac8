"""WorkflowService: save workflows, start, read, signal and cancel runs. All APIs use it.

Called by the REST API, the sockets, the command line and the clients. It knows the engine and the store, no HTTP.
Every method takes the tenant and does not see other tenants' data. The methods come from six mixins, one file
each: definitions, queries on runs, commands on runs, test runs, retries, forks.
"""

from __future__ import annotations

from anabranch.service.repair.fork_verbs import ForkVerbs


class WorkflowService(ForkVerbs):
    """Workflows and runs of one database."""
