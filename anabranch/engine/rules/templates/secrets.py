"""Secrets in expressions: allowed only alone and unchanged.

Pure. Used by `expression`. Masking recognizes whole values, not the result of a filter or operator on a secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import nodes

from anabranch.engine.rules.templates.budget import SecretMisplaced
from anabranch.engine.rules.templates.path import SECRETS_ROOT


def secret_name(keys: Sequence[Any]) -> str:
    """The name in `secret.NAME`. Raises SecretMisplaced for every other path."""
    if len(keys) != 1 or not isinstance(keys[0], str) or not keys[0].isidentifier():
        raise SecretMisplaced("secrets are read one by one, as `secret.NAME`")
    return keys[0]


def check_secrets(tree: nodes.Expr, *, given: bool) -> None:
    """Refuse secrets that are not inserted: alone, joined to text with `~`, or chosen by an inline if.

    `given`: secrets are available at this place. Raises SecretMisplaced.
    """
    if not given:
        raise SecretMisplaced("secrets are not available here, only in nodes that send them, such as httpRequest")
    stack: list[nodes.Node | None] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, nodes.Concat):
            stack.extend(node.nodes)
        elif isinstance(node, nodes.CondExpr):
            stack.extend((node.expr1, node.expr2))
            _refuse_secrets_in(node.test)
        elif node is not None and not _is_secret(node):
            _refuse_secrets_in(node)


def _is_secret(node: nodes.Node) -> bool:
    return isinstance(node, (nodes.Getattr, nodes.Getitem)) and _is_root(node.node)


def _is_root(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Name) and node.name == SECRETS_ROOT


def _refuse_secrets_in(node: nodes.Node) -> None:
    if any(_is_root(name) for name in node.find_all(nodes.Name)):
        raise SecretMisplaced("a secret is inserted as it is: no filters, comparisons or operators but `~`")
