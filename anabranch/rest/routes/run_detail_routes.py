"""Routes that read one run in detail: its log, steps, iterations, graph, and explanations of its state.

Paths of one run also exist below its workflow.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson

from anabranch.engine.console.console_rows import LEVELS, LinesWanted
from anabranch.engine.rules.history import ActivationFilter
from anabranch.errors import (
    BadJson,
    InvalidRequest,
    NotFound,
    RunTooLarge,
    TooManyPending,
    ValueNotStorable,
)
from anabranch.json_input import parse_json
from anabranch.keys.access import Role
from anabranch.rest.bodies import one_problem
from anabranch.rest.lists import page_of
from anabranch.rest.models.run_models import (
    ActivationInScope,
    AsOf,
    ConsolePage,
    ConsoleQuery,
    IterationPage,
    IterationQuery,
    LargeValueModel,
    LogPage,
    LogQuery,
    RunAsOfModel,
    RunGraph,
    RunHistory,
    SeqPage,
    StepPage,
    StepQuery,
    Totals,
    ValueQuery,
    Why,
    WhyNode,
    Widget,
    WidgetQuery,
)
from anabranch.rest.routes.route import Reply, RouteCall, RouteTable
from anabranch.rest.routes.run_routes import below_run, run_id_of, show_addresses, wait_for_end
from anabranch.service.cursors import make_cursor, read_cursor, read_number
from anabranch.service.runs.iterations import IterationsWanted, PageStart
from anabranch.service.runs.read_verbs import StepFilter
from anabranch.service.runs.run_view import PayloadDetail

# 1,000 digits: Python reads no more than 4,300 as a number, and no log has so many rows.
_SEQ_DIGITS_MAX = 1_000

JSON_LINES = "application/x-ndjson"


ROUTES = RouteTable("runs")
_OF_RUN = below_run(ROUTES)


@ROUTES.get(
    "/v1/values/{sha256}", Role.VIEWER, {200: LargeValueModel}, query=ValueQuery, errors=(NotFound,), for_executors=True
)
async def get_value(call: RouteCall) -> Reply:
    """Read a large value of a run.

    A value over 64 kB by its content, as logs and steps name it: the JSON whose SHA-256 it is.

    An executor gets those that its job's run refers to, as long as that is open.
    """
    query: ValueQuery = call.query
    tenant_id, sha256 = call.principal.tenant_for(query.tenantID), call.path["sha256"]
    workflows = call.services.workflows
    if call.principal.role is not Role.EXECUTOR:
        return Reply(await workflows.get_value(sha256, tenant_id=tenant_id))
    if query.instanceID is None:
        raise one_problem("an executor names the run of its job", "/instanceID")
    return Reply(await workflows.get_value_of_job(sha256, query.instanceID, tenant_id=tenant_id))


@_OF_RUN.get("/log", Role.VIEWER, {200: LogPage}, query=LogQuery)
async def get_log(call: RouteCall) -> Reply:
    """Read the log of a run.

    The events in log order, perhaps without their payloads.
    """
    instance_id, page = await run_id_of(call), call.query
    events, next_seq = await call.services.workflows.get_log_page(
        instance_id,
        tenant_id=call.tenant_id,
        limit=page.limit,
        after_seq=_after(page, "log"),
        payloads=PayloadDetail.NONE
        if not page.payload
        else PayloadDetail.WHOLE
        if page.inline
        else PayloadDetail.SHORT,
    )
    return Reply(page_of(events, None if next_seq is None else make_cursor("log", next_seq)))


@_OF_RUN.get("/console", Role.VIEWER, {200: ConsolePage}, query=ConsoleQuery, streams_media=JSON_LINES)
async def get_console(call: RouteCall) -> Reply:
    """Read the console lines of a run.

    The lines that handlers, steps and code nodes logged and printed, oldest first; with `follow` also new ones.
    """
    instance_id, query = await run_id_of(call), call.query
    wanted = LinesWanted(
        after=_after(query, "console"),
        limit=query.limit,
        node_id=query.nodeID,
        scope=query.scope,
        level=0 if query.level is None else LEVELS[query.level],
    )
    workflows, tenant_id = call.services.workflows, call.tenant_id
    if not query.follow:
        lines, number = await workflows.get_console(instance_id, wanted, tenant_id=tenant_id)
        return Reply(page_of(lines, None if number is None else make_cursor("console", number)))
    readiness = call.services.readiness
    pages = workflows.follow_console(
        instance_id, wanted, tenant_id=tenant_id, is_over=lambda: readiness.stopping or call.is_gone()
    )
    return Reply(stream=_json_lines(pages), content_type=JSON_LINES)


async def _json_lines(pages: AsyncIterator[list[dict[str, Any]]]) -> AsyncIterator[bytes]:
    async for page in pages:
        if page:
            yield b"".join(orjson.dumps(line) + b"\n" for line in page)


@_OF_RUN.get("/steps", Role.VIEWER, {200: StepPage}, query=StepQuery)
async def get_steps(call: RouteCall) -> Reply:
    """Read the activations of a run.

    The requested activations, in the order of their first events.
    """
    instance_id = await run_id_of(call)
    page: StepQuery = call.query
    steps, next_seq = await call.services.workflows.get_steps_page(
        instance_id,
        tenant_id=call.tenant_id,
        limit=page.limit,
        after_seq=_after(page, "steps"),
        wanted=StepFilter(
            ActivationFilter(page.nodeID, page.scope, page.within, frozenset(page.status)),
            outputs=page.outputs,
            inline=page.inline,
        ),
    )
    show_addresses(call, instance_id, steps)
    return Reply(page_of(steps, None if next_seq is None else make_cursor("steps", next_seq)))


@_OF_RUN.get("/summary", Role.VIEWER, {200: Totals})
async def get_totals(call: RouteCall) -> Reply:
    """Read the totals of a run.

    The totals of each node and each loop, as of `seq`.
    """
    return Reply(await call.services.workflows.get_totals(await run_id_of(call), tenant_id=call.tenant_id))


@_OF_RUN.get("/iterations", Role.VIEWER, {200: IterationPage}, query=IterationQuery)
async def get_iterations(call: RouteCall) -> Reply:
    """Read the iterations of a loop of a run.

    The iterations of one loop, by index.
    """
    instance_id = await run_id_of(call)
    page: IterationQuery = call.query
    after = None
    if page.cursor is not None:
        index, seq = map(read_number, read_cursor("iterations", page.cursor, parts=2))
        after = PageStart(index, seq)
    items, following = await call.services.workflows.get_iterations(
        instance_id,
        IterationsWanted(node_id=page.nodeID, scope=page.scope, statuses=page.status, after=after, limit=page.limit),
        tenant_id=call.tenant_id,
    )
    return Reply(
        page_of(items, None if following is None else make_cursor("iterations", following.index, following.seq))
    )


@_OF_RUN.get(
    "/at/{seq}", Role.VIEWER, {200: RunAsOfModel}, query=AsOf, errors=(InvalidRequest, RunTooLarge, TooManyPending)
)
async def get_run_at(call: RouteCall) -> Reply:
    """Read a run as of a row of its log.

    Folded from the first rows of the log, so it contains only what the run knew then.
    """
    instance_id, query = await run_id_of(call), call.query
    seq = call.path["seq"]
    if not seq.isdecimal() or len(seq) > _SEQ_DIGITS_MAX:
        raise one_problem(f"a seq is a whole number of at most {_SEQ_DIGITS_MAX:,} digits", "/seq")
    found = await call.services.explanations.at(
        instance_id, int(seq), tenant_id=call.tenant_id, scope=query.scope, path=query.path
    )
    return Reply(found)


@_OF_RUN.get("/why", Role.VIEWER, {200: Why}, errors=(RunTooLarge, TooManyPending))
async def get_why(call: RouteCall) -> Reply:
    """Read what a run waits for, or how it ended.

    What a run waits for, or how it ended.
    """
    instance_id = await run_id_of(call)
    found = await call.services.explanations.why_run(instance_id, tenant_id=call.tenant_id)
    show_addresses(call, instance_id, [{"waitsFor": reason} for reason in found["waitsFor"]])
    return Reply(found)


@_OF_RUN.get(
    "/nodes/{node}/why", Role.VIEWER, {200: WhyNode}, query=ActivationInScope, errors=(RunTooLarge, TooManyPending)
)
async def get_why_node(call: RouteCall) -> Reply:
    """Read why a node has run, was skipped, or has not run yet.

    Why a node has run, was skipped, or has not run yet: its edges, its waits, and the conditions that decided.
    """
    instance_id = await run_id_of(call)
    found = await call.services.explanations.why_node(
        instance_id, call.path["node"], tenant_id=call.tenant_id, scope=call.query.scope
    )
    show_addresses(call, instance_id, [{"waitsFor": reason} for reason in found["waitsFor"]])
    return Reply(found)


@_OF_RUN.get("/graph", Role.VIEWER, {200: RunGraph})
async def get_graph(call: RouteCall) -> Reply:
    """Read the graph that a run follows.

    The run's own graph, also of a test run, a coded one, or one whose workflow is deleted.
    """
    return Reply(await call.services.workflows.get_graph(await run_id_of(call), tenant_id=call.tenant_id))


@_OF_RUN.get("/history", Role.VIEWER, {200: RunHistory})
async def get_history(call: RouteCall) -> Reply:
    """Read a run with the definition that it is pinned to.

    The run with the definition that it is pinned to; its rows are in `/log`.
    """
    return Reply(await call.services.workflows.get_history(await run_id_of(call), tenant_id=call.tenant_id))


@_OF_RUN.get("/widget", Role.VIEWER, {200: Widget}, query=WidgetQuery)
async def get_widget(call: RouteCall) -> Reply:
    """Read the output of a run, shaped for a widget.

    A run's output so far, shaped for a widget.
    """
    query: WidgetQuery = call.query
    try:
        config = {} if query.config is None else parse_json(query.config, what="config")
    except (BadJson, ValueNotStorable) as refusal:
        raise one_problem(refusal.message, "/config", hint=refusal.advice) from None
    instance_id = await run_id_of(call)
    headers = await wait_for_end(call, instance_id)
    widget = await call.services.workflows.get_run_status_for_widget(
        instance_id, widget_type=query.type, widget_config=config, tenant_id=call.tenant_id
    )
    return Reply(widget, headers=headers)


def _after(page: SeqPage | ConsoleQuery, kind: str) -> int:
    return page.after if page.cursor is None else read_number(read_cursor(kind, page.cursor, parts=1)[0])
