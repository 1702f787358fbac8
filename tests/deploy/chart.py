"""Renders the templates of the chart as Helm does, as far as they use its language.

Called by `test_chart`. Helm itself is a program in Go that few machines have. What this does not know it refuses, so a
template that uses more of the language fails here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "anabranch"

_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\||\(|\)|[^\s()|]+')


@dataclass(frozen=True)
class Block:
    """What stands between an opening action and its `end`."""

    code: str
    inside: Sequence[Node]
    otherwise: Sequence[Node] = ()


Node: TypeAlias = "str | Block | list[str]"


def rendered(**overrides: Any) -> list[dict[str, Any]]:
    """The documents that the chart comes to with its values and these instead of some of them."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for name, value in overrides.items():
        values[name] = {**values[name], **value} if isinstance(value, dict) else value
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    about = {"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]}
    scope = {"Values": values, "Chart": about, "Release": {"Name": "flows", "Service": "Helm"}}
    renderer = _Renderer()
    files = {path: renderer.parse(path.read_text()) for path in sorted((CHART / "templates").iterdir())}
    texts = (renderer.text(nodes, scope, {}) for path, nodes in files.items() if path.suffix == ".yaml")
    return [document for text in texts for document in yaml.safe_load_all(text) if document]


class _Renderer:
    def __init__(self) -> None:
        self._defined: dict[str, Sequence[Node]] = {}

    def parse(self, text: str) -> list[Node]:
        nodes, _ = self._parse(_pieces(text))
        return nodes

    def _parse(self, pieces: Iterator[str | list[str]]) -> tuple[list[Node], str]:
        nodes: list[Node] = []
        for piece in pieces:
            if isinstance(piece, str):
                nodes.append(piece)
                continue
            code = piece[0]
            verb = code.split(" ", 1)[0]
            if verb in ("end", "else"):
                return nodes, verb
            if verb in ("if", "range", "define"):
                inside, ended_by = self._parse(pieces)
                otherwise = self._parse(pieces)[0] if ended_by == "else" else []
                if verb == "define":
                    self._defined[json.loads(code.split(" ", 1)[1])] = inside
                else:
                    nodes.append(Block(code, inside, otherwise))
            elif not code.startswith("/*"):
                nodes.append(piece)
        return nodes, ""

    def text(self, nodes: Sequence[Node], scope: Any, names: dict[str, Any]) -> str:
        return "".join(self._part(node, scope, names) for node in nodes)

    def _part(self, node: Node, scope: Any, names: dict[str, Any]) -> str:
        if isinstance(node, str):
            return node
        if isinstance(node, list):
            return str(self._value(_WORD.findall(node[0]), scope, names))
        verb, code = node.code.split(" ", 1)
        if verb == "if":
            chosen = node.inside if self._value(_WORD.findall(code), scope, names) else node.otherwise
            return self.text(chosen, scope, names)
        variables, _, source = code.partition(" := ")
        found = self._value(_WORD.findall(source), scope, names)
        items = sorted(found.items()) if isinstance(found, dict) else [(None, each) for each in found]
        wanted = variables.split(", ")
        return "".join(
            self.text(node.inside, scope, {**names, **dict(zip(wanted, item[-len(wanted) :], strict=True))})
            for item in items
        )

    def _value(self, words: Sequence[str], scope: Any, names: dict[str, Any]) -> Any:
        stages: list[list[Any]] = [[]]
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word == "|":
                stages.append([])
            elif word == "(":
                depth, inner = 1, []
                while depth:
                    each = rest.pop(0)
                    depth += (each == "(") - (each == ")")
                    inner.append(each)
                stages[-1].append(self._value(inner[:-1], scope, names))
            else:
                stages[-1].append(self._term(word, scope, names))
        value: Any = None
        for number, (first, *arguments) in enumerate(stages):
            given = arguments if number == 0 else [*arguments, value]
            value = self._call(first, given, scope) if callable(first) or first is _INCLUDE else first
        return value

    def _term(self, word: str, scope: Any, names: dict[str, Any]) -> Any:
        if word.startswith('"'):
            return json.loads(word)
        if word.isdecimal():
            return int(word)
        if word == ".":
            return scope
        if word.startswith("$") and not word.startswith("$."):
            return names[word]
        if word.startswith((".", "$.")):
            found = scope
            for name in word.removeprefix("$")[1:].split("."):
                found = found[name]
            return found
        return _INCLUDE if word == "include" else _FUNCTIONS[word]

    def _call(self, function: Any, arguments: list[Any], scope: Any) -> Any:
        if function is _INCLUDE:
            return self.text(self._defined[arguments[0]], arguments[1], {})
        return function(*arguments)


_INCLUDE = object()


def _quote(value: Any) -> str:
    return json.dumps(value if isinstance(value, str) else str(value))


def _indented(width: int, text: str) -> str:
    return "\n" + "\n".join(" " * width + line for line in text.split("\n"))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "quote": _quote,
    "nindent": _indented,
    "toYaml": lambda value: yaml.safe_dump(value).rstrip("\n"),
    "default": lambda other, value: value or other,
    "printf": lambda form, *values: form % values,
    "int": int,
    "not": lambda value: not value,
    "add": lambda *numbers: sum(numbers),
}


def _pieces(text: str) -> Iterator[str | list[str]]:
    """Texts and actions; a dash takes the space on its side away."""
    at = 0
    for found in re.finditer(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}", text, re.DOTALL):
        before = text[at : found.start()]
        if at and text[at - 3 : at] == "-}}":
            before = before.lstrip()
        yield before.rstrip() if found[1] else before
        yield [found[2]]
        at = found.end()
    yield text[at:].lstrip() if text[at - 3 : at] == "-}}" else text[at:]
