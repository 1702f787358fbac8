"""The façade: every verb that people and programs have, whichever API they come through.

Called by the command line (and by every later APIs). Knows the engine and the store,
no HTTP. Every verb takes the tenant; another tenant's things read as absent. The verbs stand on
four floors, a file each: definitions, then inquiries, then what moves runs, then test runs.
"""

from __future__ import annotations

from anabranch.service.runs.testing_verbs import TestingVerbs


class WorkflowService(TestingVerbs):
    """Definitions, runs, signals and cancels of one database."""
