"""`anabranch replay`: which recorded runs would take another path with another graph, or with other code?"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.cli.histories import HistoryFiles, find_node_types, histories_in, histories_of, history_of
from anabranch.cli.options import Imports
from anabranch.cli.output import counted, print_document, print_line
from anabranch.cli.target import Target, TargetOptions, open_target
from anabranch.cli.user_code import import_user_code
from anabranch.dataclass import dataclass
from anabranch.deferred import deferred
from anabranch.engine.rules.graph.node_types import NodeTypes
from anabranch.engine.rules.run_filter import RunFilter
from anabranch.errors import AnabranchError, InvalidRequest
from anabranch.json_input import read_workflow_file

if TYPE_CHECKING:
    from anabranch.client.gateway import Gateway
    from anabranch.engine.rules.graph import validate
    from anabranch.histories import replays, verification
    from anabranch.histories.recorded_history import RecordedHistory
else:
    replays = deferred("anabranch.histories.replays")
    validate = deferred("anabranch.engine.rules.graph.validate")
    verification = deferred("anabranch.histories.verification")

EXIT_ANOTHER_WAY = 1

LAST_DEFAULT = 100
LAST_MAX = 100_000


@dataclass(frozen=True, slots=True)
class _Draft:
    """The target of a replay: a graph, or the imported code."""

    definition: Mapping[str, Any] | None
    node_types: NodeTypes


def replay(
    instance_ids: Annotated[list[str] | None, typer.Argument(metavar="[INSTANCE_ID]…", help="Only these runs.")] = None,
    *,
    graph: Annotated[
        Path | None, typer.Option("--graph", metavar="FILE", help="A workflow: drawn runs on this.")
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", min=1, help="A saved version: drawn runs on this.")
    ] = None,
    code: Annotated[
        str | None, typer.Option("--code", metavar="MODULE_OR_FILE", help="Coded runs with the functions in it.")
    ] = None,
    workflow: Annotated[
        str | None, typer.Option("--workflow", metavar="WORKFLOW", help="Runs of this one; else of the file's name.")
    ] = None,
    last: Annotated[
        int, typer.Option("--last", metavar="N", min=1, max=LAST_MAX, help="The newest runs.")
    ] = LAST_DEFAULT,
    history: HistoryFiles = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 also where the log cannot tell.")] = False,
    imports: Imports = None,
    at: TargetOptions,
) -> None:
    """Replay recorded runs on another graph or with other code, without executing anything.

    Handlers and steps answer from the log. Says which runs would have gone another way, at which node or step, and
    where the log cannot tell. Exits 1 if a run would have gone another way.
    """
    if (graph is not None) + (version is not None) + (code is not None) != 1:
        raise InvalidRequest("name one of --graph, --version and --code", hint="`anabranch replay --help`")
    if version is not None and workflow is None:
        raise InvalidRequest("--version needs a workflow", hint="Name it with --workflow.")
    for module in imports or ():
        import_user_code(module)
    if code is not None:
        import_user_code(code, option="--code")
    document = None if graph is None else _read_graph(graph)
    target = None if history and version is None else open_target(at)
    if version is not None:
        assert target is not None and workflow is not None
        document = _saved(target, workflow, version)
    draft = _Draft(document, find_node_types())
    if target is None or history:
        found = asyncio.run(_replayed(draft, histories_in(history or ())))
    else:
        name = workflow or (document or {}).get("name")
        if document is not None and name is None and not instance_ids:
            raise InvalidRequest(
                "the workflow in the file has no name", hint="Name the workflow of the runs with --workflow."
            )
        found = target.ask(lambda gateway: _replayed(draft, _asked(gateway, instance_ids or [], name, last)))
    if at.as_json:
        print_document(found)
    else:
        _print(found)
    failed = found["different"] + (found["unknown"] if strict else 0)
    raise typer.Exit(EXIT_ANOTHER_WAY if failed else 0)


def _read_graph(file: Path) -> dict[str, Any]:
    """A valid workflow from a file. Raises InvalidWorkflow with every problem."""
    document = read_workflow_file(file)
    report = validate.validate(document, find_node_types())
    if not report.valid:
        raise validate.refusal_of(report.errors)
    return dict(document)


def _saved(target: Target, workflow: str, version: int) -> dict[str, Any]:
    return target.ask(lambda gateway: gateway.export_workflow(workflow, version=version))


async def _asked(gateway: Gateway, ids: list[str], workflow: str | None, last: int) -> AsyncIterator[RecordedHistory]:
    for instance_id in ids:
        yield await history_of(gateway, instance_id)
    if ids:
        return
    left = last
    async for each in histories_of(gateway, RunFilter(workflow=workflow)):
        if not each.is_of_system:
            yield each
            left -= 1
        if not left:
            return


async def _replayed(draft: _Draft, histories: AsyncIterator[RecordedHistory]) -> dict[str, Any]:
    """The printed result: how many runs would take which path, and those that differ."""
    counts = dict.fromkeys(("same", "different", "unknown"), 0)
    left_out = 0
    listed: list[dict[str, Any]] = []
    async for history in histories:
        if history.is_coded is (draft.definition is not None):
            left_out += 1
            continue
        found = await _replayed_one(draft, history)
        counts[found.agreement.value] += 1
        if found.agreement.value != "same" or found.differences:
            listed.append(found.as_json())
    return {"runs": sum(counts.values()), **counts, "leftOut": left_out, "listed": listed}


async def _replayed_one(draft: _Draft, history: RecordedHistory) -> replays.ReplayedRun:
    try:
        if draft.definition is not None:
            return replays.replay_on_graph(history, draft.definition, draft.node_types)
        with redirect_stdout(io.StringIO()):  # what the function prints, it has printed when the run was executed
            return await replays.replay_on_code(history)
    except AnabranchError:
        raise
    except Exception:
        verified = await verification.verify_history(history, draft.node_types)
        if not verified.findings:
            raise
        first = verified.findings[0]
        message = f"its log is not as defined (row {first.seq}: {first.message}): `anabranch verify` has all of it"
        return replays.undecided(history, message)


_WORDS = {"same": "would take the same path", "different": "would take another path", "unknown": "undecided"}


def _print(found: dict[str, Any]) -> None:
    for run in found["listed"]:
        print_line(
            f"run {run['instanceID']} ({run['name']} {run['version']}, {run['status']}) {_WORDS[run['agreement']]}"
        )
        for each in run["differences"]:
            location = f"{each['nodeID']} in {each['scope']}" if each["scope"] else each["nodeID"]
            print_line(f"  {each['kind']}{f' at {location}' if location else ''}: {each['message']}")
        if run["differencesOmitted"]:
            print_line(f"  and {run['differencesOmitted']} more")
        if run["message"] and not run["differences"]:
            print_line(f"  {run['message']}")
    if found["leftOut"]:
        print_line(f"left out: {counted(found['leftOut'], 'run')} of the other kind")
    counts = ", ".join(f"{found[key]} {words}" for key, words in _WORDS.items())
    print_line(f"{counted(found['runs'], 'run')}: {counts}")
