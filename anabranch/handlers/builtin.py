"""The types that anabranch brings: a new file of a type is entered here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch.handlers import condition, delay, end, loop, set, start, wait_for_event
from anabranch.handlers.javascript import javascript_spec
from anabranch.handlers.python import python_spec
from anabranch.handlers.sandbox import CodeRunner, NoSandbox
from anabranch.handlers.spec import HandlerSpec

_FILES = (start, end, condition, delay, loop, set, wait_for_event)


@dataclass(frozen=True, slots=True)
class Services:
    """What some types need of the rest of the house; each stands for one that refuses, until it is given."""

    sandbox: CodeRunner = field(default_factory=NoSandbox)


def builtin_specs(services: Services) -> Mapping[str, HandlerSpec]:
    """The built-in types, by name, on these services."""
    specs = [
        *(file.SPEC for file in _FILES),
        javascript_spec(services.sandbox),
        python_spec(services.sandbox),
    ]
    return {spec.type: spec for spec in specs}


BUILTIN: Mapping[str, HandlerSpec] = builtin_specs(Services())
"""By type, on no services: for what only reads and checks workflows."""
