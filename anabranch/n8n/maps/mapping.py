"""Which type of n8n is mapped by what: the table of all mappings.

Pure. A new mapping is entered here; `docs/n8n.md` has the table that is made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from anabranch.n8n.job import MappingJob
from anabranch.n8n.maps import map_calls, map_data, map_databases, map_flow, map_texts, map_triggers


@dataclass(frozen=True, slots=True)
class MappingRule:
    """How nodes of a type are mapped."""

    map: Callable[[MappingJob], None]
    becomes: str
    """Our types, for the documentation."""
    needs_items: bool = False
    """It would do something for an empty list, where n8n does not run it at all."""
    begins: bool = False
    """It begins runs."""


def _rule(
    map_: Callable[[MappingJob], None], becomes: str, *, needs_items: bool = False, begins: bool = False
) -> MappingRule:
    return MappingRule(map_, becomes, needs_items, begins)


RULES: Mapping[str, MappingRule] = {
    "manualTrigger": _rule(map_triggers.manual, "start", begins=True),
    "start": _rule(map_triggers.manual, "start", begins=True),
    "webhook": _rule(
        map_triggers.webhook,
        "webhook, set; respond for an answer of its own, condition for several methods",
        begins=True,
    ),
    "scheduleTrigger": _rule(map_triggers.schedule, "schedule, set", begins=True),
    "cron": _rule(map_triggers.cron, "schedule, set", begins=True),
    "interval": _rule(map_triggers.interval, "schedule, set", begins=True),
    "executeWorkflowTrigger": _rule(map_triggers.called, "workflowCall", begins=True),
    "errorTrigger": _rule(map_triggers.failed, "failure, set", begins=True),
    "noOp": _rule(map_flow.passed_on, "fields"),
    "if": _rule(map_flow.if_, "condition; of several items set"),
    "filter": _rule(map_flow.filter_, "condition; of several items set"),
    "switch": _rule(map_flow.switch, "condition; of several items set"),
    "splitInBatches": _rule(map_flow.batches_as_loop, "loop, or cursor", needs_items=True),
    "wait": _rule(map_flow.wait, "delay, waitForWebhook", needs_items=True),
    "executeWorkflow": _rule(map_flow.call, "workflow", needs_items=True),
    "respondToWebhook": _rule(map_flow.respond, "respond", needs_items=True),
    "stopAndError": _rule(map_flow.stop, "stopWithError", needs_items=True),
    "set": _rule(map_data.set_, "set"),
    "renameKeys": _rule(map_data.rename, "fields"),
    "splitOut": _rule(map_data.split_out, "javascript"),
    "aggregate": _rule(map_data.aggregate, "set, javascript", needs_items=True),
    "sort": _rule(map_data.sort, "javascript"),
    "limit": _rule(map_data.limit, "limit"),
    "removeDuplicates": _rule(map_data.remove_duplicates, "javascript"),
    "summarize": _rule(map_data.summarize, "javascript", needs_items=True),
    "itemLists": _rule(map_data.item_lists, "as the node for its operation", needs_items=True),
    "merge": _rule(map_data.merge, "merge, javascript"),
    "html": _rule(map_texts.html, "html, set"),
    "htmlExtract": _rule(map_texts.html, "html"),
    "markdown": _rule(map_texts.markdown, "markdown, set"),
    "xml": _rule(map_texts.xml, "javascript"),
    "crypto": _rule(map_texts.crypto, "crypto, set"),
    "dateTime": _rule(map_texts.date_time, "dateTime, set"),
    "httpRequest": _rule(map_calls.http, "httpRequest, javascript"),
    "code": _rule(map_calls.code, "javascript, python", needs_items=True),
    "function": _rule(map_calls.function, "javascript", needs_items=True),
    "functionItem": _rule(map_calls.function_item, "javascript"),
    "postgres": _rule(map_databases.query, "dataQuery"),
    "mySql": _rule(map_databases.query, "dataQuery"),
}

CORE = frozenset(RULES)
"""The types that count as n8n's core, together with notes."""
