"""Import collections of n8n exports: how much of them is mapped exactly.

    python -m benchmarks.n8n DIR [DIR …] [--json] [--sample N]

A folder holds exports as `*.json`, in any depth; other files are left out. The shares are those of what is there:
`graphs_saved` of the workflows whose document our validator accepts; `nodes_exact` of the nodes whose type is listed
as mapped (`anabranch.n8n.maps.mapping`); `workflows_without_placeholder` of all workflows; `workflows_core_only_exact`
of the workflows with no other types than those, whose nodes are all exact; `expressions_rewritten` of the expressions
outside of nodes for language models, into templates; `exceptions` is a number. What is measured is not executed. The
last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anabranch.handlers.registry import builtin_types
from anabranch.n8n.exports import N8nWorkflow, is_export, read_exports
from anabranch.n8n.importing import Imported, import_workflow
from anabranch.n8n.maps.mapping import CORE

_LANGUAGE_MODELS = re.compile(r"langchain|openai|anthropic|mistral|gemini|ollama|perplexity|Tool$", re.IGNORECASE)


class Tally:
    """Counts of a collection."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.by_type: Counter[tuple[str, str]] = Counter()
        self.core_reasons: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self._types = builtin_types()

    def add(self, workflow: N8nWorkflow) -> None:
        """Import one, and count."""
        self.counts["workflows"] += 1
        try:
            imported = import_workflow(workflow, self._types)
        except Exception as fault:  # noqa: BLE001 - whatever it is, it is counted
            frame = traceback.extract_tb(fault.__traceback__)[-1]
            self.faults[f"{type(fault).__name__} in {Path(frame.filename).name}:{frame.lineno}: {fault}"[:160]] += 1
            return
        self.counts["saved"] += not imported.errors
        for problem in imported.errors[:1]:
            self.refused[f"{problem.code}: {problem.message}"[:140]] += 1
        self._count(imported)

    def _count(self, imported: Imported) -> None:
        nodes = imported.report.nodes
        self.counts["without_placeholder"] += not any(node.status == "placeholder" for node in nodes)
        if nodes and all(node.kind in CORE for node in nodes):
            self.counts["core_only"] += 1
            inexact = [node for node in nodes if node.status != "exact"]
            self.counts["core_only_exact"] += not inexact
            self.core_reasons.update(f"{node.kind}, {node.status}: {node.why}"[:110] for node in inexact)
        for node in nodes:
            if node.kind in CORE:
                self.by_type[node.kind, node.status] += 1
                if node.status != "exact":
                    self.reasons[f"{node.kind}, {node.status}: {node.why}"[:110]] += 1
            if not _LANGUAGE_MODELS.search(node.type):
                self.counts["expressions"] += node.counts.total
                self.counts["rewritten"] += node.counts.rewritten
                self.counts["as_code"] += node.counts.as_code

    def shares(self, files: int) -> dict[str, Any]:
        """The last line."""
        counts = self.counts
        nodes = sum(self.by_type.values())
        exact = sum(count for (_, status), count in self.by_type.items() if status == "exact")
        return {
            "files": files,
            "graphs_saved": _share(counts["saved"], counts["workflows"]),
            "nodes_exact": _share(exact, nodes),
            "workflows_without_placeholder": _share(counts["without_placeholder"], counts["workflows"]),
            "workflows_core_only_exact": _share(counts["core_only_exact"], counts["core_only"]),
            "expressions_rewritten": _share(counts["rewritten"], counts["expressions"]),
            "exceptions": sum(self.faults.values()),
        }

    def lines(self) -> Iterator[str]:
        """What the shares are made of."""
        kinds = {kind for kind, _ in self.by_type}
        yield "type, exact, equal but for, placeholder:"
        for kind in sorted(kinds, key=lambda each: -sum(self.by_type[each, status] for status in _STATUSES)):
            yield f"  {kind} " + " ".join(str(self.by_type[kind, status]) for status in _STATUSES)
        listed = {"refused": self.refused, "faults": self.faults, "reasons": self.reasons,
                  "reasons in workflows of these types alone": self.core_reasons}  # fmt: skip
        for title, counter in listed.items():
            yield f"{title}:"
            yield from (f"  {count} {what}" for what, count in counter.most_common(60))
        yield f"counts: {dict(self.counts)}"


_STATUSES = ("exact", "equal", "placeholder")


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 1.0


def _exports(folders: list[Path], sample: int) -> Iterator[Any]:
    number = 0
    for folder in folders:
        for file in sorted(folder.rglob("*.json")):
            try:
                document = json.loads(file.read_text(encoding="utf-8-sig"))
            except (ValueError, OSError, RecursionError):
                continue
            if is_export(document):
                number += 1
                if number % sample == 0:
                    yield document


def main(arguments: list[str] | None = None) -> None:
    """Print the counts, and the shares as the last line."""
    parser = argparse.ArgumentParser(description="Import collections of n8n exports, and count what is exact.")
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--json", action="store_true", help="only the last line")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="every Nth file")
    given = parser.parse_args(arguments)
    tally, files = Tally(), 0
    for document in _exports(given.folders, max(1, given.sample)):
        files += 1
        for workflow in read_exports(document):
            tally.add(workflow)
    if not given.json:
        for line in tally.lines():
            print(line)
    print(json.dumps(tally.shares(files)))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
