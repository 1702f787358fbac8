"""The built-in node types: a new one is entered here."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.handlers.services import NO_SERVICES, Services
from anabranch.handlers.spec import HandlerSpec
from anabranch.handlers.types import (
    condition,
    cursor,
    delay,
    end,
    loop,
    placeholder,
    set,
    start,
    stop_with_error,
    switch,
    wait_for_event,
)
from anabranch.handlers.types.data import (
    aggregate,
    choose_fields,
    crypto_values,
    date_time,
    filter_items,
    limit_items,
    merge_lists,
    sort_items,
    split_out,
    unique_items,
)
from anabranch.handlers.types.data_query import data_query_spec
from anabranch.handlers.types.formats import (
    convert_csv,
    convert_markdown,
    convert_xml,
    extract_html,
    search_text,
)
from anabranch.handlers.types.http_request import http_request_spec
from anabranch.handlers.types.javascript import javascript_spec
from anabranch.handlers.types.python import python_spec
from anabranch.handlers.types.triggers import failure, schedule, topic, webhook, workflow_call
from anabranch.handlers.types.webhooks import respond
from anabranch.handlers.types.webhooks.wait_for_webhook import wait_for_webhook_spec
from anabranch.handlers.types.workflow import workflow_spec

_FILES = (
    *(webhook, schedule, topic, workflow_call, failure),
    *(start, end, condition, cursor, delay, loop, placeholder, respond, set, stop_with_error),
    *(switch, wait_for_event),
    *(convert_csv, convert_markdown, convert_xml, date_time, extract_html, search_text),
    *(choose_fields, filter_items, limit_items, merge_lists, sort_items, split_out, unique_items),
)


def builtin_specs(services: Services = NO_SERVICES) -> Mapping[str, HandlerSpec]:
    """By type; those that need services use these."""
    specs = (
        *(file.SPEC for file in _FILES),
        aggregate.AGGREGATE,
        aggregate.GROUP,
        crypto_values.crypto_spec(services.secrets),
        http_request_spec(services.http, services.secrets),
        javascript_spec(services.sandbox),
        python_spec(services.sandbox),
        data_query_spec(services.queries),
        workflow_spec(services.children),
        wait_for_webhook_spec(services.callbacks),
    )
    return {spec.type: spec for spec in specs}


BUILTIN: Mapping[str, HandlerSpec] = builtin_specs()
"""By type, without services: good for checking, and for the names."""
