"""The report on an import: what is exact, what differs and why, what was not imported, and what the user must enter.

Pure. As JSON and as text; the page is made of the JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

from anabranch.dataclass import dataclass
from anabranch.n8n.job import Credential
from anabranch.n8n.texts import Counts

Status = Literal["exact", "equal", "placeholder"]

SHOWN = {"exact": "exact", "equal": "equal but for", "placeholder": "placeholder"}

# Words in the names of values that nobody should be able to read.
_SECRET_WORDS = re.compile(r"TOKEN|KEY|SECRET|PASSW|PWD|CREDENTIAL|AUTH|PRIVATE", re.IGNORECASE)

# What is another way in all workflows, so that it is said once and not at each node.
EVERYWHERE = (
    "Branches run at the same time, where n8n runs one after the other, from top to bottom.",
    "A node that several branches lead to waits for all that are taken and runs once.",
    "Expressions read what is missing as null.",
    "What an error says is worded in another way, and limits of size and time are those of this engine.",
    "Requests have the header Idempotency-Key, and go to public addresses only, unless the operator allows others.",
    "A run is kept, and goes on after a crash: what was under way is executed again.",
    "Binary data flow from requests to what follows them: requests, answers, HTML, code, and nodes that hand on items;"
    " with all other fields a file has at most 1 MB of base64.",
)


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The outcome for one node of n8n."""

    name: str
    type: str
    kind: str
    status: str
    why: str
    """What differs, or why it is a placeholder."""
    remarks: tuple[str, ...]
    nodes: tuple[str, ...]
    """The ids of the nodes that it became."""
    counts: Counts
    credentials: tuple[Credential, ...]
    variables: tuple[str, ...] = ()
    """The variables that it reads."""

    def as_json(self) -> dict[str, Any]:
        """The public form."""
        return {
            "name": self.name,
            "type": self.type,
            "status": self.status,
            "why": self.why,
            "remarks": list(self.remarks),
            "nodes": list(self.nodes),
            "expressions": {
                "rewritten": self.counts.rewritten,
                "asCode": self.counts.as_code,
                "left": list(self.counts.left),
            },
        }


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The report on one workflow."""

    title: str
    workflow: str
    nodes: tuple[NodeReport, ...]
    notes: int
    timezone: str
    has_error_workflow: bool = False

    @property
    def status(self) -> str:
        """That of the whole: the least of its nodes'."""
        found = {node.status for node in self.nodes}
        return next((each for each in ("placeholder", "equal") if each in found), "exact")

    def count(self, status: str) -> int:
        """How many nodes have a status."""
        return sum(node.status == status for node in self.nodes)

    @property
    def differences(self) -> list[str]:
        """The differences of the whole workflow from n8n."""
        more = [f"Times without a time zone are those of {self.timezone}."]
        if self.has_error_workflow:
            more.append("Its error workflow is begun by a `failure` trigger: import that workflow, too.")
        if seeming := ", ".join(self.seeming_secrets):
            more.append(
                f"Variables are plain text, and runs that read them have them in their logs: {seeming} may be secrets."
                " Store such a value as a secret, and write {{secret.NAME}} where a node may have one."
            )
        return [*EVERYWHERE, *more]

    @property
    def seeming_secrets(self) -> list[str]:
        """The variables whose names look like those of secrets."""
        return [each["name"] for each in self.variables if _SECRET_WORDS.search(each["name"])]

    @property
    def credentials(self) -> list[dict[str, Any]]:
        """The credentials to be entered, each once."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for node in self.nodes:
            for each in node.credentials:
                entry = found.setdefault(
                    (each.kind, each.name), {"type": each.kind, "name": each.name, "secrets": [], "nodes": []}
                )
                entry["secrets"] += [secret for secret in each.secrets if secret not in entry["secrets"]]
                if each.node not in entry["nodes"]:
                    entry["nodes"].append(each.node)
        return list(found.values())

    @property
    def variables(self) -> list[dict[str, Any]]:
        """The names of `$env` and `$vars` to be entered, each once."""
        names = sorted({name for node in self.nodes for name in node.variables})
        return [{"name": name, "nodes": [node.name for node in self.nodes if name in node.variables]} for name in names]

    def as_json(self) -> dict[str, Any]:
        """The public form."""
        return {
            "title": self.title,
            "workflow": self.workflow,
            "status": self.status,
            "counts": {status: self.count(status) for status in SHOWN} | {"notes": self.notes},
            "nodes": [node.as_json() for node in self.nodes],
            "differences": self.differences,
            "credentials": self.credentials,
            "variables": self.variables,
        }

    @property
    def summary(self) -> str:
        """One line."""
        counted = ", ".join(f"{self.count(status)} {shown}" for status, shown in SHOWN.items())
        return f"{self.title}: {counted}"

    def lines(self) -> Iterator[str]:
        """As text."""
        yield self.summary
        for node in self.nodes:
            yield f"  {SHOWN[node.status]:14} {node.name} ({node.type})" + (f": {node.why}" if node.why else "")
            yield from (f"  {'':14} note: {remark}" for remark in node.remarks)
            if node.status != "placeholder":
                yield from (f"  {'':14} left as it was: {left}" for left in node.counts.left)
        if self.credentials:
            yield "Credentials to enter:"
            for each in self.credentials:
                secrets = f" as {', '.join(each['secrets'])}" if each["secrets"] else ""
                yield f"  {each['name']} ({each['type']}){secrets}: {', '.join(each['nodes'])}"
        if self.variables:
            yield "Variables to set:"
            yield from (f"  {each['name']}: {', '.join(each['nodes'])}" for each in self.variables)
        yield "What behaves differently here:"
        yield from (f"  {each}" for each in self.differences)
