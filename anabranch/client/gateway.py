"""The verbs on workflows and runs, wherever they are: in a database or behind a server.

Implemented by `LocalGateway` and `RemoteGateway`; used by `Client` and the command line, which do not know which one
they have. Results are JSON as in REST.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from anabranch.run_requests import RETRY, SAME_INPUT, START_NOW, RetryOptions, StartedRun, StartOptions

if TYPE_CHECKING:
    from anabranch.engine.rules.run_filter import RunFilter

# 100 runs per page of a list, the maximum of a server.
PAGE_RUNS_MAX = 100


class Gateway(Protocol):
    """The workflows and runs of one tenant. Every verb may raise StoreUnavailable, or what a server refuses with."""

    async def list_workflows(self) -> list[dict[str, Any]]:
        """All workflows, by name, without their graphs."""

    async def get_workflow(self, workflow: str, *, version: int | None = None) -> dict[str, Any]:
        """One workflow by id or name, with nodes, edges and options; the newest version unless one is named."""

    async def export_workflow(self, workflow: str, *, version: int | None = None) -> dict[str, Any]:
        """The document of a drawn workflow as it was saved, with its name. Raises NotFound, WorkflowIsCoded."""

    async def save_workflow(self, document: dict[str, Any]) -> dict[str, Any]:
        """Save a file under its name, as a whole: new, the next version, or the newest again if nothing changed."""

    async def delete_workflow(self, workflow: str, *, force: bool = False) -> None:
        """Delete a workflow; `force` cancels its open runs. Raises NotFound; WorkflowHasRuns without `force`."""

    async def activate_workflow(self, workflow: str, version: int) -> dict[str, Any]:
        """Let starts take this version: `{workflowID, name, activeVersion}`. Raises NotFound, WorkflowIsCoded."""

    async def pause_workflow(self, workflow: str) -> dict[str, Any]:
        """Pause its runs: `{workflowID, name, paused}`. Raises NotFound."""

    async def resume_workflow(self, workflow: str) -> dict[str, Any]:
        """Resume its runs: `{workflowID, name, paused}`. Raises NotFound."""

    async def pause_tenant(self) -> dict[str, Any]:
        """Pause all runs of the tenant: `{paused}`."""

    async def resume_tenant(self) -> dict[str, Any]:
        """Resume all runs of the tenant: `{paused}`."""

    async def validate(self, document: Any) -> dict[str, Any]:
        """Validate a workflow; nothing is saved."""

    async def start_run(self, workflow: str, input_: Any, options: StartOptions = START_NOW) -> StartedRun:
        """Start a run; it is durable when this returns.

        Raises NotFound, InvalidInput, InvalidRequest, TooManyPending.
        """

    async def rerun_run(
        self, instance_id: str, options: StartOptions = START_NOW, *, input_: Any = SAME_INPUT
    ) -> StartedRun:
        """Start a new run like another one: of its options only the version and the key count.

        Raises NotFound, InvalidInput, InvalidRequest, TooManyPending.
        """

    async def list_runs(self, wanted: RunFilter, *, limit: int, cursor: str | None = None) -> dict[str, Any]:
        """A page of runs, newest first: `{items, nextCursor}`; at most 100. Raises NotFound, InvalidRequest."""

    async def get_run(self, instance_id: str) -> dict[str, Any]:
        """A run with its input, outcome and first 1,000 activations. Raises NotFound."""

    async def wait_for_end(self, instance_id: str, *, timeout_s: float | None = None) -> dict[str, Any]:
        """Wait for the end of a run; returns its status, output, error and, if it was cancelled, `note`.

        Raises NotFound, and TimeoutError after `timeout_s` seconds; the run continues. Checks at least once.
        """

    async def explain_run(self, instance_id: str, node_id: str | None = None, *, scope: str = "") -> dict[str, Any]:
        """Explain the state of a run, or of one of its nodes in a scope, like `…/why`. Raises NotFound, RunTooLarge."""

    async def get_log(self, instance_id: str, *, after_seq: int = 0) -> list[dict[str, Any]]:
        """All events after `after_seq`, in log order. Raises NotFound."""

    async def get_history(self, instance_id: str) -> dict[str, Any]:
        """A run, the definition that it is pinned to, and its whole log: `{run, definition, log}`. Raises NotFound."""

    async def get_console(self, instance_id: str, *, after: int = 0, level: str = "debug") -> list[dict[str, Any]]:
        """All lines after the one with that number, of that level or above, oldest first. Raises NotFound."""

    def step_pages(self, instance_id: str) -> AsyncIterator[list[dict[str, Any]]]:
        """Every activation, page by page, in the order of its first event. Raises NotFound."""

    async def cancel_run(self, instance_id: str, *, reason: str) -> str:
        """Return once CANCELLED is committed. Raises NotFound; RunIsTerminal if it ended otherwise."""

    async def pause_run(self, instance_id: str, *, children: bool = True) -> str:
        """Return once it is SUSPENDED, and the runs that it awaits with it. Raises NotFound, RunIsTerminal."""

    async def resume_run(self, instance_id: str, *, children: bool = True) -> str:
        """Return once it is not SUSPENDED any more; its status then. Raises NotFound, RunIsTerminal."""

    async def retry_run(self, instance_id: str, options: RetryOptions = RETRY) -> dict[str, Any]:
        """Continue a failed or cancelled run where it ended: `{instanceID, status, generation, redo, children, …}`.

        Raises NotFound, RunIsCompleted, RunIsOpen, RetryWouldRepeat, ParentNotWaiting, RetryRefused.
        """

    async def fork_run(self, instance_id: str, request: Mapping[str, Any], *, key: str | None = None) -> dict[str, Any]:
        """Start a run with the outcomes of this one, or answer with the plan; `request` is the body of `…/fork`."""

    async def start_bulk(self, request: Mapping[str, Any], *, key: str | None = None) -> dict[str, Any]:
        """Start a bulk run: `{bulkID, status}`. `request` is the body of `POST /v1/runs/bulk`."""

    async def get_bulk(self, bulk_id: str) -> dict[str, Any]:
        """The progress of a bulk run. Raises NotFound."""

    async def send_signal(self, instance_id: str, event: str, payload: Any, *, key: str | None = None) -> bool:
        """Keep a signal until it is consumed; True if a fitting wait was open. A repeated key is delivered once.

        Raises NotFound, RunIsTerminal, TooManySignals, InvalidInput.
        """
