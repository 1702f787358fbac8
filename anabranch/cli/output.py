"""Output of the commands: JSON for programs, lines and tables for people.

Results go to standard output; errors, hints and warnings go to standard error. With `--json`, standard output has
exactly one JSON document, which may be the error object, whatever user code prints (`answers_apart`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import orjson

from anabranch.errors import AnabranchError, InvalidRequest

# Control characters in data could move the terminal's cursor; tab and newline are harmless.
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))}


STANDARD_OUTPUT, STANDARD_ERROR = 1, 2

_apart: TextIO | None = None
"""The output for results while standard output is redirected."""


@contextmanager
def answers_apart() -> Iterator[None]:
    """Within this context only results go to standard output; everything else that is printed goes to standard error.

    This covers user code (handlers, steps, modules of `--import`), libraries that write to the descriptor, and programs
    that they start. The descriptor stays redirected afterwards: what a C library has buffered comes out when the
    process ends. So this is for a process that gives one command and ends.
    """
    global _apart
    before = sys.stdout
    before.flush()
    _apart = _duplicate(before) if _is_standard_output(before) else before
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout = before
        answers, _apart = _apart, None
        answers.flush()


def flush_answers() -> None:
    """Flush, so that the reader of a pipe sees the output so far."""
    _answers().flush()


def answers_descriptor() -> int:
    """The descriptor that answers are written to, for processes that answer in our place."""
    return _answers().fileno()


def drop_answers() -> None:
    """The reader has closed the pipe: avoid an error about buffered output when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), _answers().fileno())


def _answers() -> TextIO:
    return sys.stdout if _apart is None else _apart


def _is_standard_output(stream: TextIO) -> bool:
    try:
        return stream.fileno() == STANDARD_OUTPUT
    except OSError:  # a stream in memory
        return False


def _duplicate(stream: TextIO) -> TextIO:
    """The same output under another descriptor, which programs that are started do not inherit."""
    kept = os.dup(STANDARD_OUTPUT)
    os.dup2(STANDARD_ERROR, STANDARD_OUTPUT)
    return open(kept, "w", encoding=stream.encoding, errors=stream.errors)


def print_document(value: Any) -> None:
    """One JSON document, indented, keys in their order."""
    _answers().write(document_text(value))


def document_text(value: Any) -> str:
    """The text of such a document."""
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n"
    except orjson.JSONEncodeError:
        # Bytes of a command line that are not UTF-8 come back in a message as lone surrogates: escaped, they are JSON.
        return json.dumps(value, indent=2) + "\n"


def write_document(path: Path, value: Any) -> None:
    """The same into a file. Raises InvalidRequest if it cannot be written."""
    try:
        path.write_text(document_text(value), encoding="utf-8")
    except OSError as refusal:
        raise InvalidRequest(f"{path} cannot be written: {refusal.strerror}", hint="Choose another file.") from None


def print_line(text: str) -> None:
    """One line of an answer."""
    _answers().write(shown(text) + "\n")


def print_note(text: str) -> None:
    """One line beside the answer."""
    sys.stderr.write(shown(text) + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Rows under their headings, aligned; None is shown as `-`, objects and lists as JSON."""
    cells = [[heading.upper() for heading in columns], *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(columns))]
    for row in cells:
        _answers().write("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n")


def print_answer(document: Any, line: str, *, as_json: bool) -> None:
    """The document for programs, or the line for people."""
    if as_json:
        print_document(document)
    else:
        print_line(line)


def print_list(items: Sequence[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    """All items of a list as one document, or a table of these fields of theirs."""
    if as_json:
        print_document({"items": items, "nextCursor": None})
    else:
        print_table(columns, [[item[column] for column in columns] for item in items])


def print_error(error: AnabranchError, *, as_json: bool) -> None:
    """`error CODE: message` and its hint on standard error; as JSON the error object on standard output."""
    if as_json:
        print_document({"error": error.as_json()})
        return
    for line in error_lines(error):
        print_note(line)


def error_lines(error: AnabranchError) -> list[str]:
    """An error for people: itself, its problems, its hint."""
    details = error.details if isinstance(error.details, list) else ()
    problems = [each for each in details if isinstance(each, dict) and "message" in each]
    is_told = len(problems) == 1 and problems[0]["message"] in error.message and not _code_and_place(problems[0])
    return [
        f"error {error.code}: {' '.join(error.message.split())}",
        *(f"  {problem_line(each)}" for each in problems if not is_told),
        *([f"hint: {error.advice}"] if error.advice else []),
        *import_hints(problems),
    ]


def import_hints(problems: Iterable[Mapping[str, Any]]) -> list[str]:
    """The line that says how a command gets to know node types, if a workflow has unknown ones."""
    unknown = any(each.get("code") == "UNKNOWN_TYPE" for each in problems)
    return (
        ["hint: Pass `--import FILE` with the file that declares it; a server takes that when it starts."]
        if unknown
        else []
    )


def problem_line(problem: Mapping[str, Any]) -> str:
    """One problem of a workflow, an input or a setting: its code if it has one, its place, its sentence, and what to
    do."""
    words = _code_and_place(problem) or [problem.get("name") or "at the root"]
    hint = f" ({problem['hint']})" if problem.get("hint") else ""
    return f"{' '.join(words)}: {problem['message']}{hint}"


def _code_and_place(problem: Mapping[str, Any]) -> list[str]:
    words = [problem["code"]] if problem.get("code") else []
    if problem.get("nodeID") is not None:
        words.append(f"in node {problem['nodeID']}")
    elif problem.get("edgeID") is not None:
        words.append(f"at edge {problem['edgeID']}")
    elif problem.get("pointer"):
        words.append(f"at {problem['pointer']}")
    return words


def counted(number: int, noun: str, is_: str = "", are: str = "") -> str:
    """`1 run`, `2,000 runs`; with the two forms of a verb `1 run is`, `2,000 runs are`."""
    words = (noun, is_) if number == 1 else (f"{noun}s", are)
    return f"{number:,} {' '.join(words)}".rstrip()


def shown(text: str) -> str:
    """Somebody's text, safe for a terminal."""
    return text.translate(_CONTROL).encode(errors="backslashreplace").decode()


def _cell(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "-", True: "yes", False: "no"}[value]
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else str(value)
    return shown(text).replace("\n", " ")
