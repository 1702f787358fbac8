"""The table of all mappings by node type of n8n, collected from their modules.

Pure. A new mapping is a function with `@maps(…)`; `docs/n8n.md` has the table that is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.n8n.maps import (
    map_calls,
    map_code,
    map_data,
    map_databases,
    map_flow,
    map_lists,
    map_texts,
    map_triggers,
)
from anabranch.n8n.maps.rules import MappingRule

_MODULES = (map_triggers, map_flow, map_data, map_lists, map_texts, map_calls, map_code, map_databases)

RULES: Mapping[str, MappingRule] = {
    kind: rule
    for module in _MODULES
    for rule in vars(module).values()
    if isinstance(rule, MappingRule)
    for kind in rule.kinds
}

CORE = frozenset(RULES)
"""The types that count as n8n's core, together with notes."""
