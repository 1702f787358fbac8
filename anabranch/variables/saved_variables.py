"""Variables as they are stored, their limits, and the port to the store for routes and commands.

The tenant's are written by people; those of a workflow by its runs, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

from anabranch.dataclass import dataclass
from anabranch.engine.ports import WorkflowVersion
from anabranch.engine.rules.coded.coded_plan import CODED_KIND
from anabranch.engine.rules.instants import to_iso
from anabranch.engine.rules.values import VALUE_BYTES_MAX as OUTPUT_BYTES_MAX
from anabranch.engine.rules.values import Payload
from anabranch.errors import InvalidRequest, NotFound, WorkflowIsCoded

# 128 characters: a name is part of a key in the database, and of an address.
NAME_LENGTH_MAX = 128

# 256 kB: four of them can be read at once into the output of a node, which has at most 1 MB.
VALUE_BYTES_MAX = 262_144

# 1,000 variables of a tenant, and of each workflow: what has more names is data, and belongs in a database.
VARIABLES_MAX = 1_000

# 4 MB of all values of a tenant, and of each workflow: four times what a node can read at once. More is data.
OWNER_BYTES_MAX = 4_194_304

# 4 kB: a list has values up to this size, so a page of 100 has 400 kB. Larger values are read one by one.
LISTED_VALUE_BYTES_MAX = 4_096

# 1 MB for what a node reads at once: an output has no more.
READ_BYTES_MAX = OUTPUT_BYTES_MAX

# 100 writers: a node that is executed again after a crash is known among the last hundred that wrote the variable.
WRITERS_MAX = 100

# 1,000 removed variables of a tenant, and of each workflow, are remembered with their writers, as many as it can have.
# Beyond them the one that was removed first is forgotten.
REMOVED_MAX = 1_000

OF_TENANT = ""
"""In place of the id of a workflow: the tenant's own."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of variables."""

    tenant_id: str
    workflow_id: str = OF_TENANT


@dataclass(frozen=True, slots=True)
class SavedVariable:
    """A variable with its value."""

    name: str
    value: Any
    """None in a list if it has more than `LISTED_VALUE_BYTES_MAX`; no variable is null."""
    size: int
    """Bytes of the value as JSON."""
    version: int
    """1, 2, 3…: how often it was written or removed."""
    updated_at: int


class VariableRows(Protocol):
    """Keeps the variables, as long as their tenant or workflow. Node types have a port of their own
    (`handlers.types.variable_nodes`), for the same rows."""

    async def list_variables(self, owner: Owner, *, limit: int, after: str = "") -> Sequence[SavedVariable]:
        """By name, strictly after that one, without the values that are large."""

    async def get_variable(self, owner: Owner, name: str) -> SavedVariable | None:
        """One, whatever its size."""

    async def set_variable(
        self, owner: Owner, name: str, value: Any, *, actor: str, expected_version: int | None = None
    ) -> SavedVariable:
        """Set one by hand, on record. Raises LimitReached, NotFound for a workflow that is not there, VersionMismatch
        if it has another version than the expected one, or is not there."""

    async def delete_variable(
        self, owner: Owner, name: str, *, actor: str, expected_version: int | None = None
    ) -> bool:
        """Remove one by hand, on record; False if there was none. Raises VersionMismatch."""


def check_name(name: str) -> None:
    """Raise InvalidRequest for a name that no variable can have."""
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name[:NAME_LENGTH_MAX]!r} is not a valid name of a variable",
            hint=f"Up to {NAME_LENGTH_MAX} letters, digits and `_`, `.`, `:`, `-`; the first is a letter or `_`.",
        )


def owner_of_workflow(workflow: WorkflowVersion) -> Owner:
    """Raises WorkflowIsCoded: no function reads or writes variables."""
    if workflow.kind == CODED_KIND:
        raise WorkflowIsCoded(
            f"workflow {workflow.name} is a coded workflow, which keeps no variables",
            hint="Keep its data in a database.",
        )
    return Owner(workflow.tenant_id, workflow.workflow_id)


def variable_text(value: Any) -> str:
    """The value as it is stored. Raises ValueNotStorable, ValueTooLarge."""
    return Payload.of(value, bytes_max=VALUE_BYTES_MAX).raw.decode()


def no_variable(name: str) -> NotFound:
    """The error for a name that no variable of its owner has."""
    hint = "`anabranch variables list` shows the variables, with `--workflow` those of a workflow."
    return NotFound(f"there is no variable {name}", hint=hint)


def variable_as_json(variable: SavedVariable) -> dict[str, Any]:
    """The public form."""
    return {
        "name": variable.name,
        "value": variable.value,
        "size": variable.size,
        "version": variable.version,
        "updatedAt": to_iso(variable.updated_at),
    }
