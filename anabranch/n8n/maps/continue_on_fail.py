"""The n8n setting *continue on fail*: a failed item goes on beside the others, or through an error output.

Pure. Such a node takes its input as a list, so that our engine collects the failures of items; a code node behind it
tells them from results. An item that failed is `{error}`; on the way for errors it has the fields of the input, too.
"""

from __future__ import annotations

import json
from typing import Any

from anabranch.n8n.job import MappingJob
from anabranch.n8n.maps.programs import RESULTS, SORTED_OUT
from anabranch.n8n.refs import ItemFeed, number, variable
from anabranch.n8n.texts import expression

# The types whose failures are told from results here.
FAILING = frozenset({"httpRequest", "code", "function", "functionItem", "executeWorkflow", "set", "html",
                     "htmlExtract"})  # fmt: skip


def begin(job: MappingJob) -> ItemFeed:
    """Begin with the input, as a list if failures are to be collected."""
    job.takes_list = job.error_way != "stop"
    return job.needed_feed()


def end(
    job: MappingJob,
    program: str,
    *,
    head: str = "",
    single: bool = False,
    whole: bool = False,
    files: bool = False,
    loop: str | None = None,
) -> None:
    """A code node that sorts out results and failures, and the ways out of both.

    `program` puts items by `put(item, index)`. `single`: one item comes out for one that flows in. `whole`: it ran once
    for all items, so that both ways may be taken. `files`: `put` is given the files of an item, too.
    `loop`: the loop that it follows, if the last node is in the body of one.
    """
    feed = job.needed_feed()
    inputs = f"{feed.items.js} ?? []" if job.error_way == "apart" or files else "[]"
    returned = "items, of, failed, failedOf" + (", files: files.some(Boolean) ? files : []" if files else "")
    options = json.dumps({"errors": job.error_way})
    edge: dict[str, Any] = {} if loop is None else {"behind": loop, "after": "done"}
    job.add("javascript", {"code": f"const inputs = {inputs}, going = {options};\n{head}{SORTED_OUT}\n{program}\n"
                                   f"return {{{returned}}};"}, **edge, retry={"maxAttempts": 1})  # fmt: skip
    made = variable(job.node_id)
    items, was_one = made.field("items"), job.takes_list and 0 in job.feeds and not job.feeds[0].many and not whole
    if job.error_way == "apart" and was_one:
        failed = expression(f"({made.field('failed').template} | length) > 0")
        job.add("condition", {"branches": [{"id": "failed", "expression": failed}]}, suffix="failed", writes=False)
        job.chooses = True
    value, many = (items.at(number(0)), False) if single and was_one else (items, True)
    made_files = made.field("files") if files else None
    job.leave(value, many=many, pairing=None if whole else made.field("of"), files=made_files,
              handles=("else",) if job.chooses else ("default",))  # fmt: skip
    if job.error_way == "apart":
        failed_items = made.field("failed")
        job.leave(
            failed_items.at(number(0)) if was_one else failed_items, many=not was_one, output=1,
            pairing=None if whole else made.field("failedOf"), handles=("failed",) if job.chooses else ("default",),
        )  # fmt: skip


def end_of_each(job: MappingJob, *, leaves_out: bool = False) -> None:
    """The same behind a node that gives one item for each; `leaves_out`: or none."""
    before = variable(job.nodes[-1]["id"])
    end(job, RESULTS, head=f"const results = {before.js} ?? [];\n", single=not leaves_out)
