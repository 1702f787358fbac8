"""Workflows in a memory store: names, numbered versions, deletions.

Called by `memory.MemoryStore` alone. Versions are never changed, and not forgotten while a
run is there: an ended one must stay readable with the definition it was pinned to.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import field, replace
from typing import Any

import orjson

from anabranch.dataclass import dataclass
from anabranch.engine.ports import NewVersion, WorkflowVersion
from anabranch.engine.rules.coded.coded_plan import CODED_KIND, CODED_TENANT_ID
from anabranch.engine.rules.graph.source_texts import parse_document
from anabranch.errors import NameTaken, NotFound, VersionMismatch, WorkflowHasRuns


@dataclass(slots=True, eq=False)
class _Workflow:
    versions: list[WorkflowVersion] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)
    deleted: bool = False
    active: int | None = None
    """None: the newest one."""

    @property
    def newest(self) -> WorkflowVersion:
        return self.seen(self.versions[-1])

    def seen(self, version: WorkflowVersion) -> WorkflowVersion:
        """One of the versions, as it is read now."""
        return replace(version, active_version=self.active or self.versions[-1].version)

    def numbered(self, number: int) -> WorkflowVersion | None:
        """The version of this number, if there is one."""
        return next((self.seen(each) for each in self.versions if each.version == number), None)


class MemoryDefinitions:
    """Workflows by id, and by (tenant, name) while they are not deleted."""

    def __init__(
        self, *, now: Callable[[], int], new_id: Callable[[], str] | None, has_open_runs: Callable[[str], bool]
    ) -> None:
        counter = itertools.count(1)
        self._new_id = new_id or (lambda: str(uuid.UUID(int=next(counter))))
        self._now = now
        self._has_open_runs = has_open_runs
        self._workflows: dict[str, _Workflow] = {}
        self._names: dict[tuple[str, str], str] = {}

    def save(self, wanted: NewVersion, *, tenant_id: str) -> WorkflowVersion:
        """A new workflow, its next version, or the newest again if nothing differs."""
        workflow = _Workflow() if wanted.workflow_id is None else self._live(tenant_id, wanted.workflow_id)
        workflow_id, name, expected = wanted.workflow_id or self._new_id(), wanted.name, wanted.expected_version
        latest = workflow.newest if workflow.versions else None
        if expected is not None and latest is not None and latest.version != expected:
            raise VersionMismatch(f"workflow {latest.name} is at version {latest.version}, not {expected}")
        if self._names.get((tenant_id, name), workflow_id) != workflow_id:
            raise NameTaken(f"another workflow is already named {name}")
        if (latest is None or latest.name != name) and (CODED_TENANT_ID, name) in self._names:
            raise NameTaken(f"{name} is the name of a coded workflow, which every tenant sees")
        # Through text and back: what is kept shares nothing with what was given.
        text = orjson.dumps(wanted.definition) if wanted.text is None else wanted.text.encode()
        definition = orjson.loads(text) if wanted.kind == CODED_KIND else parse_document(text)
        if (
            latest is not None
            and (latest.name, latest.title, latest.kind) == (name, wanted.title, wanted.kind)
            and orjson.dumps(latest.definition) == orjson.dumps(definition)
        ):
            return latest
        now = self._now()
        version = WorkflowVersion(
            workflow_id=workflow_id,
            tenant_id=tenant_id,
            name=name,
            title=wanted.title,
            kind=wanted.kind,
            version=1 if latest is None else latest.version + 1,
            definition=definition,
            created_at=now if latest is None else latest.created_at,
            updated_at=now,
            active_version=0,
        )
        if latest is not None:
            del self._names[tenant_id, latest.name]
        self._names[tenant_id, name] = workflow_id
        workflow.active = None if wanted.activate or latest is None else latest.active_version
        workflow.versions.append(version)
        workflow.texts[version.version] = text.decode()
        self._workflows[workflow_id] = workflow
        return workflow.newest

    def activate(self, *, tenant_id: str, workflow_id: str, version: int) -> WorkflowVersion:
        """Make this the version for starts."""
        workflow = self._live(tenant_id, workflow_id)
        if workflow.numbered(version) is None:
            raise NotFound(f"workflow {workflow.newest.name} has no version {version}")
        workflow.active = None if version == workflow.newest.version else version
        return workflow.newest

    def register(
        self, *, name: str, version: int, definition: Mapping[str, Any], active: bool = False
    ) -> WorkflowVersion:
        """A version of a coded workflow, with the options that it has now."""
        workflow_id = self._names.setdefault((CODED_TENANT_ID, name), self._new_id())
        workflow = self._workflows.setdefault(workflow_id, _Workflow())
        known = workflow.numbered(version)
        now = self._now()
        registered = WorkflowVersion(
            workflow_id=workflow_id,
            tenant_id=CODED_TENANT_ID,
            name=name,
            title=None,
            kind=CODED_KIND,
            version=version,
            definition=orjson.loads(orjson.dumps(definition)),
            created_at=workflow.versions[0].created_at if workflow.versions else now,
            updated_at=now if known is None else known.updated_at,
            active_version=0,
        )
        others = [each for each in workflow.versions if each.version != version]
        is_new = all(each.version < version for each in others) and known is None
        workflow.versions[:] = sorted([*others, registered], key=lambda each: each.version)
        if active or is_new:
            workflow.active = None if version == workflow.newest.version else version
        return workflow.seen(registered)

    def get(self, *, tenant_id: str, workflow: str, version: int | None, active: bool) -> WorkflowVersion | None:
        """By id or name, of this tenant, unless deleted."""
        named = self._names.get((tenant_id, workflow)) or self._names.get((CODED_TENANT_ID, workflow), "")
        found = self._workflows.get(workflow) or self._workflows.get(named)
        if found is None or found.deleted or found.newest.tenant_id not in (tenant_id, CODED_TENANT_ID):
            return None
        newest = found.newest
        return found.numbered(version or (newest.active_version if active else newest.version))

    def pinned(self, workflow_id: str, version: int) -> WorkflowVersion | None:
        """One version, deleted or not."""
        found = self._workflows.get(workflow_id)
        return None if found is None else found.numbered(version)

    def document(self, workflow_id: str, version: int) -> str | None:
        """The text of a drawn version, deleted or not."""
        found = self._workflows.get(workflow_id)
        return None if found is None else found.texts.get(version)

    def may_have_runs(self, workflow_id: str | None, *, active: int | None = None) -> bool:
        """False for a workflow that is not there (any more), or with another active version; test runs (None) need
        none."""
        if workflow_id is None:
            return True
        workflow = self._workflows.get(workflow_id)
        return workflow is not None and not workflow.deleted and active in (None, workflow.newest.active_version)

    def newest(self, *, tenant_id: str) -> list[WorkflowVersion]:
        """The newest version of each workflow of the tenant, by name."""
        seen = {name: id_ for (tenant, name), id_ in self._names.items() if tenant == CODED_TENANT_ID}
        seen |= {name: id_ for (tenant, name), id_ in self._names.items() if tenant == tenant_id}
        return [self._workflows[seen[name]].newest for name in sorted(seen)]

    def versions_of(self, *, tenant_id: str, workflow_id: str) -> list[WorkflowVersion]:
        """All versions of a workflow of the tenant, oldest first; none if it is deleted."""
        workflow = self._workflows.get(workflow_id)
        if workflow is None or workflow.deleted or workflow.newest.tenant_id not in (tenant_id, CODED_TENANT_ID):
            return []
        return [workflow.seen(each) for each in workflow.versions]

    def delete(self, *, tenant_id: str, workflow_id: str, force: bool) -> None:
        """Free the name; the versions stay for the runs that are pinned to them."""
        workflow = self._live(tenant_id, workflow_id)
        if not force and self._has_open_runs(workflow_id):
            raise WorkflowHasRuns(f"workflow {workflow.newest.name} has open runs")
        workflow.deleted = True
        del self._names[tenant_id, workflow.newest.name]

    def remove_deleted(self, needed: Collection[str | None], *, limit: int) -> int:
        """Forget at most that many deleted workflows that none of these are; how many."""
        unused = [id_ for id_, workflow in self._workflows.items() if workflow.deleted and id_ not in needed][:limit]
        for workflow_id in unused:
            del self._workflows[workflow_id]
        return len(unused)

    def _live(self, tenant_id: str, workflow_id: str) -> _Workflow:
        workflow = self._workflows.get(workflow_id)
        if workflow is None or workflow.deleted or workflow.newest.tenant_id != tenant_id:
            raise NotFound(f"there is no workflow {workflow_id}")
        return workflow
