"""The built-in node types: a new one is entered here.

A type is imported when it is first asked for: a process loads those that its workflows have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from anabranch.handlers.services import NO_SERVICES, Services
from anabranch.handlers.spec import HandlerSpec

_PACKAGE = "anabranch.handlers.types"

_SPECS: Mapping[str, str] = {
    "webhook": "triggers.webhook:SPEC",
    "schedule": "triggers.schedule:SPEC",
    "topic": "triggers.topic:SPEC",
    "workflowCall": "triggers.workflow_call:SPEC",
    "failure": "triggers.failure:SPEC",
    "start": "start:SPEC",
    "end": "end:SPEC",
    "condition": "condition:SPEC",
    "cursor": "cursor:SPEC",
    "delay": "delay:SPEC",
    "loop": "loop:SPEC",
    "placeholder": "placeholder:SPEC",
    "respond": "webhooks.respond:SPEC",
    "set": "set:SPEC",
    "stopWithError": "stop_with_error:SPEC",
    "switch": "switch:SPEC",
    "waitForEvent": "wait_for_event:SPEC",
    "csv": "formats.convert_csv:SPEC",
    "markdown": "formats.convert_markdown:SPEC",
    "xml": "formats.convert_xml:SPEC",
    "dateTime": "data.date_time:SPEC",
    "html": "formats.extract_html:SPEC",
    "text": "formats.search_text:SPEC",
    "fields": "data.choose_fields:SPEC",
    "filter": "data.filter_items:SPEC",
    "limit": "data.limit_items:SPEC",
    "merge": "data.merge_lists:SPEC",
    "sort": "data.sort_items:SPEC",
    "splitOut": "data.split_out:SPEC",
    "unique": "data.unique_items:SPEC",
    "aggregate": "data.aggregate:AGGREGATE",
    "group": "data.aggregate:GROUP",
}
"""Where the specification of a type is."""

_MAKERS: Mapping[str, tuple[str, ...]] = {
    "crypto": ("data.crypto_values:crypto_spec", "secrets"),
    "httpRequest": ("http_request:http_request_spec", "http", "secrets", "tokens"),
    "javascript": ("javascript:javascript_spec", "sandbox"),
    "python": ("python:python_spec", "sandbox"),
    "dataQuery": ("data_query:data_query_spec", "queries"),
    "readVariables": ("variable_nodes:read_variables_spec", "variables"),
    "writeVariables": ("variable_nodes:write_variables_spec", "variables"),
    "workflow": ("workflow:workflow_spec", "children"),
    "waitForWebhook": ("webhooks.wait_for_webhook:wait_for_webhook_spec", "callbacks"),
}
"""Where the function is that makes it, and the services that it needs."""


class BuiltinSpecs(Mapping[str, HandlerSpec]):
    """By type; those that need services use these."""

    def __init__(self, services: Services = NO_SERVICES) -> None:
        self._services = services
        self._specs: dict[str, HandlerSpec] = {}

    def __getitem__(self, type_name: str) -> HandlerSpec:
        spec = self._specs.get(type_name)
        if spec is None:
            spec = self._specs[type_name] = self._loaded(type_name)
        return spec

    def __iter__(self) -> Iterator[str]:
        yield from _SPECS
        yield from _MAKERS

    def __len__(self) -> int:
        return len(_SPECS) + len(_MAKERS)

    def __contains__(self, type_name: object) -> bool:
        return type_name in _SPECS or type_name in _MAKERS

    def _loaded(self, type_name: str) -> HandlerSpec:
        if type_name in _SPECS:
            spec: HandlerSpec = _found(_SPECS[type_name])
            return spec
        import_path, *needed = _MAKERS[type_name]
        made: HandlerSpec = _found(import_path)(*(getattr(self._services, name) for name in needed))
        return made


def _found(import_path: str) -> Any:
    module, _, name = import_path.partition(":")
    return getattr(import_module(f"{_PACKAGE}.{module}"), name)


BUILTIN: Mapping[str, HandlerSpec] = BuiltinSpecs()
"""By type, without services: good for checking, and for the names."""
