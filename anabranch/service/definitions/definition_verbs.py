"""Operations on definitions: validate, save versions, read, delete.

The lowest mixin of `WorkflowService`, below `read_verbs`. It validates
everything that is saved, and concurrent starts share one read of a version. What an `actor` (the id of a key, or
`cli`) saves and deletes is recorded in the audit trail.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.housekeeping import cancel_runs_of_deleted_workflows
from anabranch.engine.lifecycle import Engine
from anabranch.engine.ports import NewVersion, Pause, WorkflowVersion
from anabranch.engine.rules.coded.coded_plan import CODED_KIND
from anabranch.engine.rules.graph.document import derive_name
from anabranch.engine.rules.graph.node_types import NodeTypes
from anabranch.engine.rules.graph.problems import Problem
from anabranch.engine.rules.graph.validate import Report, analyze, is_n8n_export, validate
from anabranch.engine.rules.values import is_storable
from anabranch.errors import (
    InvalidRequest,
    InvalidWorkflow,
    NameTaken,
    NotFound,
    VersionMismatch,
    WorkflowIsCoded,
)
from anabranch.service.definitions.checks import Checks
from anabranch.service.definitions.workflow_documents import (
    check_identity,
    is_same,
    updated,
    wants_activation,
    without_server_fields,
)
from anabranch.service.definitions.workflow_references import References
from anabranch.service.definitions.workflow_view import shown_counts, version_summary, workflow_summary
from anabranch.service.runs.run_counts import RunCounts
from anabranch.service.runs.shared_reads import SharedReads

# 5 tries to save under a name: each retry means that another save took or freed the name at the same moment.
SAVE_ATTEMPTS_MAX = 5

# 20 tries to change a version: each retry means that another save came first.
UPDATE_ATTEMPTS_MAX = 20

WORKFLOWS_HINT = "`anabranch workflows list` shows the workflows and their versions."


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateOptions:
    """Options of a save of the next version."""

    expected_version: int | None = None
    """Save only if this is the newest version."""
    replace: bool = False
    """True: the document replaces the stored one. Otherwise missing top-level fields keep their value and null
    removes one,
    so that a client that knows a few fields does not lose the others."""


NEXT_VERSION = UpdateOptions()


class DefinitionVerbs:
    """Workflows and their versions."""

    def __init__(self, *, engine: Engine, node_types: NodeTypes, references: References | None) -> None:
        """Without `references`, references to other objects are not checked before a run."""
        self.checks = Checks()
        self._engine = engine
        self._references = references
        self._store = engine.store
        self._node_types = node_types
        self._versions = SharedReads(self._read_version)
        self._run_counts = RunCounts(store=engine.store, clock=engine.clock)

    def validate(self, document: Any) -> Report:
        """All problems of a drawn workflow, and the bounds of its runs. Never raises."""
        return validate(document, self._node_types)

    async def check_workflow(self, document: Any, *, tenant_id: str) -> Report:
        """The same, including the workflows, queries and secrets that it names.

        Raises TooManyChecks, StoreUnavailable.
        """
        report = await self.checks.run(tenant_id, self.validate, document)
        if self._references is None:
            return report
        return await self._references.checked(document, report, tenant_id=tenant_id)

    async def analyze_workflow(self, document: Any, aspects: Collection[str], *, tenant_id: str) -> dict[str, Any]:
        """The result of `check_workflow`, with fixes and with facts about the graph for an editor.

        `aspects` are among `analysis.ASPECTS`. Raises TooManyChecks, StoreUnavailable.
        """
        report, analysis = await self.checks.run(tenant_id, analyze, document, self._node_types, aspects)
        if self._references is not None:
            report = await self._references.checked(document, report, tenant_id=tenant_id)

        def with_fixes(problem: Problem) -> dict[str, Any]:
            return {**problem.as_json(), "fixes": analysis.fixes_of(problem)}

        return {
            **report.as_json(),
            "errors": [with_fixes(problem) for problem in report.errors],
            "warnings": [with_fixes(problem) for problem in report.warnings],
            **analysis.aspects,
        }

    async def create_workflow(
        self, document: Mapping[str, Any], *, tenant_id: str, actor: str | None = None
    ) -> tuple[WorkflowVersion, Report]:
        """Save a new workflow as version 1. Raises InvalidWorkflow, NameTaken (a derived name gets `-2` instead)."""
        report = await self._refuse_invalid(document, tenant_id)
        wants_activation(document)  # the only version is always the active one
        document = without_server_fields(document)
        wanted = document.get("name")

        async def save(name: str) -> WorkflowVersion:
            version = new_version(document, name, None, expected_version=None, activate=True)
            return await self._store.save_workflow(version, tenant_id=tenant_id, actor=actor)

        if wanted is not None:
            return await save(wanted), report

        async def save_under_a_free_name() -> WorkflowVersion:
            return await save(await self._free_name(derive_name(document.get("title") or ""), tenant_id))

        return await _despite_rivals(save_under_a_free_name), report

    async def update_workflow(
        self,
        workflow: str,
        document: Mapping[str, Any],
        options: UpdateOptions = NEXT_VERSION,
        *,
        tenant_id: str,
        actor: str | None = None,
    ) -> tuple[WorkflowVersion, Report]:
        """Save the next version; a document equal to the newest version returns that one. Raises NotFound,
        VersionMismatch too."""
        update = partial(self._update_once, workflow, document, options, tenant_id=tenant_id, actor=actor)
        for _ in range(UPDATE_ATTEMPTS_MAX - 1):
            try:
                return await update()
            except VersionMismatch:
                if options.expected_version is not None:
                    raise
        return await update()

    async def _update_once(
        self,
        workflow: str,
        document: Mapping[str, Any],
        options: UpdateOptions,
        *,
        tenant_id: str,
        actor: str | None,
    ) -> tuple[WorkflowVersion, Report]:
        known = await self.get_workflow_by_id(workflow, tenant_id=tenant_id)
        _refuse_code(known)
        if is_n8n_export(document):  # perhaps a list
            await self._refuse_invalid(document, tenant_id)
        check_identity(document, workflow_id=known.workflow_id, kind=known.kind)
        given = without_server_fields(document)
        wanted = given if options.replace else updated(known.definition, given)
        report = await self._refuse_invalid(wanted, tenant_id)
        expected = options.expected_version
        if expected not in (None, known.version):
            raise VersionMismatch(f"workflow {known.name} is at version {known.version}, not {expected}")
        version = new_version(
            wanted,
            wanted.get("name") or known.name,
            known,
            # Missing fields come from the version that was read, so no other save may come in between.
            expected_version=expected if options.replace else known.version,
            activate=wants_activation(document),
        )
        return await self._store.save_workflow(version, tenant_id=tenant_id, actor=actor), report

    async def prepare_version(
        self,
        document: Mapping[str, Any],
        *,
        tenant_id: str,
        known: WorkflowVersion | None,
        expected_version: int | None,
    ) -> tuple[NewVersion, Report]:
        """The document that a save would store, as a new workflow or as the next version of a known one.

        Saves nothing. Without a name it keeps the known one, or gets a free one. Raises InvalidRequest for a document
        of another workflow, WorkflowIsCoded, InvalidWorkflow.
        """
        if known is not None:
            _refuse_code(known)
            check_identity(document, workflow_id=known.workflow_id, kind=known.kind)
        report = await self._refuse_invalid(document, tenant_id)
        activate, document = wants_activation(document), without_server_fields(document)
        name = document.get("name") or (None if known is None else known.name)
        if name is None:
            name = await self._free_name(derive_name(document.get("title") or ""), tenant_id)
        return new_version(document, name, known, expected_version=expected_version, activate=activate), report

    async def save_workflow(
        self, document: Mapping[str, Any], *, tenant_id: str, actor: str | None = None
    ) -> tuple[WorkflowVersion, Report]:
        """Save a whole file under its name: a new workflow, the next version, or no change if it is equal."""
        report = await self._refuse_invalid(document, tenant_id)
        activate, document = wants_activation(document), without_server_fields(document)
        name = document.get("name") or derive_name(document.get("title") or "")

        async def save_under_this_name() -> WorkflowVersion:
            known = await self._store.get_workflow(tenant_id=tenant_id, workflow=name)
            if known is not None and known.kind == CODED_KIND:
                known = None  # not the tenant's: saving under its name is refused as taken
            version = new_version(document, name, known, expected_version=None, activate=activate)
            return await self._store.save_workflow(version, tenant_id=tenant_id, actor=actor)

        return await _despite_rivals(save_under_this_name), report

    async def get_all_workflows(
        self,
        *,
        tenant_id: str,
        limit: int,
        after: str | None = None,
        include_graph: bool = False,
        of_last_day: bool = False,
    ) -> list[dict[str, Any]]:
        """The newest version of every workflow, by name, strictly after the name `after`, with its run counts.

        With `of_last_day` these count of ended runs only those that ended in the last 24 hours.
        A workflow that exists throughout the paging and keeps its name is listed exactly once.
        Counts lag at most 5 s. Raises InvalidRequest for an invalid `after`.
        """
        if after is not None and not is_storable(after):
            raise InvalidRequest("invalid name in `after`", hint="Take it from the previous page.")
        entries = await self._store.list_workflows(
            tenant_id=tenant_id, limit=limit, after=after, with_definitions=include_graph
        )
        counts = await (self._run_counts.of_last_day if of_last_day else self._run_counts.of)(tenant_id)
        pauses = await self._pauses(tenant_id)
        return [
            workflow_summary(
                entry,
                counts.get(entry.workflow_id, {}),
                pauses.get(entry.workflow_id),
                include_graph=include_graph,
            )
            for entry in entries
        ]

    async def get_workflow_details(
        self, workflow: str, *, tenant_id: str, version: int | None = None
    ) -> dict[str, Any]:
        """One workflow as lists show it, with its graph. Raises NotFound."""
        found = await self.get_workflow_by_id(workflow, tenant_id=tenant_id, version=version)
        counts, pauses = await self._run_counts.of(tenant_id), await self._pauses(tenant_id)
        run_counts, pause = counts.get(found.workflow_id, {}), pauses.get(found.workflow_id)
        return workflow_summary(found, run_counts, pause, include_graph=True)

    async def get_drawn_workflow(self, workflow: str, *, tenant_id: str, version: int | None = None) -> WorkflowVersion:
        """One drawn workflow; its definition is the document as it was saved, with its name.

        Raises NotFound, WorkflowIsCoded.
        """
        found = await self.get_workflow_by_id(workflow, tenant_id=tenant_id, version=version)
        if found.kind == CODED_KIND:
            raise WorkflowIsCoded(f"workflow {found.name} is a Python function and has no document")
        return found

    async def get_document(
        self, workflow: str, *, tenant_id: str, version: int | None = None
    ) -> tuple[WorkflowVersion, str]:
        """The same with the text of its document, as it was published. Raises NotFound, WorkflowIsCoded."""
        found = await self.get_drawn_workflow(workflow, tenant_id=tenant_id, version=version)
        text = await self._store.get_document(found.workflow_id, found.version)
        if text is None:
            raise NotFound(f"workflow {found.name} was removed")
        return found, text

    async def get_workflow_versions(
        self,
        workflow: str,
        *,
        tenant_id: str,
        limit: int,
        before: int | None = None,
        include_run_counts: bool = False,
    ) -> list[dict[str, Any]]:
        """The versions of a workflow, newest first, strictly before number `before`. Raises NotFound.

        Run counts are those of the tenant's own runs; counting them reads every stored run.
        """
        found = await self.get_workflow_by_id(workflow, tenant_id=tenant_id)
        versions = await self._store.list_versions(
            tenant_id=tenant_id, workflow_id=found.workflow_id, limit=limit, before=before
        )
        if not include_run_counts:
            return [version_summary(version) for version in versions]
        counts = await self._run_counts.by_version(tenant_id, found.workflow_id)
        return [
            {**version_summary(version), "runCounts": shown_counts(counts.get(version.version, {}))}
            for version in versions
        ]

    async def get_workflow_by_id(self, workflow: str, *, tenant_id: str, version: int | None = None) -> WorkflowVersion:
        """One workflow by id or name. Raises NotFound."""
        return await self._found(workflow, tenant_id, version, active=False)

    async def get_startable(self, workflow: str, *, tenant_id: str, version: int | None = None) -> WorkflowVersion:
        """The same, but without a version the one that starts take. Raises NotFound."""
        return await self._found(workflow, tenant_id, version, active=True)

    async def delete_workflow(
        self, workflow: str, *, tenant_id: str, force: bool = False, actor: str | None = None
    ) -> None:
        """Remove a workflow and free its name; ended runs stay readable by id. Raises NotFound, StoreUnavailable.

        Raises WorkflowHasRuns while runs are open. With `force` all of them are cancelled when this
        returns. The workflow is removed first, so that no start slips through; runs that a crash leaves open are
        cancelled by the next sweep of a worker.
        """
        found = await self.get_workflow_by_id(workflow, tenant_id=tenant_id)
        _refuse_code(found)
        await self._store.delete_workflow(tenant_id=tenant_id, workflow_id=found.workflow_id, force=force, actor=actor)
        if force:
            await cancel_runs_of_deleted_workflows(self._store, workflow_id=found.workflow_id)

    # -- within ---------------------------------------------------------------------------
    async def _found(self, workflow: str, tenant_id: str, version: int | None, *, active: bool) -> WorkflowVersion:
        key = (tenant_id, workflow, version, active)
        found = await self._versions.get(key) if is_storable(workflow) else None
        if found is None:
            of_version = "" if version is None else f" in version {version}"
            raise NotFound(f"there is no workflow {workflow!r}{of_version}", hint=WORKFLOWS_HINT)
        return found

    async def _pauses(self, tenant_id: str) -> dict[str, Pause]:
        """The paused workflows of a tenant, by their ids."""
        found = await self._store.pauses(tenant_id=tenant_id)
        return {pause.workflow_id: pause for pause in found if pause.workflow_id is not None}

    async def _refuse_invalid(self, document: Any, tenant_id: str) -> Report:
        report = await self.check_workflow(document, tenant_id=tenant_id)
        if report.errors:
            first = report.errors[0]
            others = f" (and {len(report.errors) - 1} more)" if len(report.errors) > 1 else ""
            raise InvalidWorkflow(f"{first.message}{others}", details=[error.as_json() for error in report.errors])
        return report

    async def _free_name(self, derived: str, tenant_id: str) -> str:
        name, number = derived, 2
        while await self._store.get_workflow(tenant_id=tenant_id, workflow=name) is not None:
            name = f"{derived[: 63 - len(str(number))]}-{number}"
            number += 1
        return name

    async def _read_version(self, key: tuple[str, str, int | None, bool]) -> WorkflowVersion | None:
        tenant_id, workflow, version, active = key
        return await self._store.get_workflow(tenant_id=tenant_id, workflow=workflow, version=version, active=active)


def new_version(
    document: Mapping[str, Any],
    name: str,
    known: WorkflowVersion | None,
    *,
    expected_version: int | None,
    activate: bool,
) -> NewVersion:
    """The document to store, with its name; the known version's own definition if they are equal."""
    definition = {**document, "name": name}
    if known is not None and is_same(known.definition, definition):
        definition = dict(known.definition)
    return NewVersion(
        name=name,
        title=definition.get("title"),
        definition=definition,
        workflow_id=None if known is None else known.workflow_id,
        expected_version=expected_version,
        activate=activate,
    )


def _refuse_code(known: WorkflowVersion) -> None:
    if known.kind == CODED_KIND:
        raise WorkflowIsCoded(f"workflow {known.name} is a coded workflow; workers register its versions")


async def _despite_rivals(save: Callable[[], Awaitable[WorkflowVersion]]) -> WorkflowVersion:
    """Save, and retry if the name was taken or the workflow removed between read and save."""
    for _ in range(SAVE_ATTEMPTS_MAX - 1):
        try:
            return await save()
        except (NameTaken, NotFound):
            continue
    return await save()
