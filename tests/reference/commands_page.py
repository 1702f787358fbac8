"""The generated page of all commands with their arguments and options, from typer. Called by `pages`."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, get_args, get_origin

from typer.core import TyperGroup

from anabranch.cli.entry import application

# Every command has it.
_EVERYWHERE = {"--help"}


def commands_page(made: str) -> str:
    """Each command, families after each other."""
    parts = [
        "# Commands and their options\n",
        made,
        "What `anabranch COMMAND --help` prints. [The command line](commands.md) has an overview, and what all commands have in common.\n",
    ]
    for name, command in _all(application, ""):
        parts += [f"## {name}\n", _prose(command.help or "") + "\n"]
        rows = [row for each in command.params for row in _row(each)]
        if rows:
            parts.append("\n".join(["| argument or option | value | meaning |", "|---|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def _all(group: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for name in group.commands:
        command = group.commands[name]
        if isinstance(command, TyperGroup):
            yield from _all(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def _row(parameter: Any) -> Iterator[str]:
    flags = [*parameter.opts, *parameter.secondary_opts]
    if set(flags) & _EVERYWHERE:
        return
    is_option = parameter.param_type_name == "option"
    required = " (required)" if parameter.required else ""
    label = (
        ", ".join(f"`{flag}`" for flag in flags) if is_option else f"`{parameter.metavar or parameter.name.upper()}`"
    )
    value = _value(parameter) if is_option and not parameter.is_flag else ""
    default = parameter.default
    shown = f"{default.value}" if isinstance(default, Enum) else default
    said = f" Default: `{shown}`." if isinstance(shown, str | int) and not isinstance(shown, bool) else ""
    yield f"| {label}{required} | {_cell(value)} | {_cell(_prose(parameter.help or ''))}{said} |"


def _value(parameter: Any) -> str:
    annotation = parameter.type_descriptor.annotation
    several = get_origin(annotation) is list
    kind = get_args(annotation)[0] if several else annotation
    repeated = ", repeatable" if several or parameter.multiple else ""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return ", ".join(f"`{str(each.value).lower()}`" for each in kind) + repeated
    if parameter.metavar:
        return f"`{parameter.metavar}`{repeated}"
    bounds = f" {parameter.min} to {parameter.max}" if parameter.max is not None else ""
    return {int: "number", str: "text"}.get(kind, kind.__name__) + bounds + repeated


def _prose(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
