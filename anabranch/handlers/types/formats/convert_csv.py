"""`csv`: reads and writes tables as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import Field, field_validator

from anabranch.engine.rules.templates.budget import ITEM_UNITS, Refused, TemplateBudget, check_size
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import HandlerSpec, NodeConfig
from anabranch.handlers.types.data.each_value import text_of
from anabranch.handlers.types.formats.text_job import in_thread

_NODE = "csv"

# 1,024 columns: more than any table that people look at; an object is made of each row.
COLUMNS_MAX = 1_024

_BYTE_ORDER_MARK = "\ufeff"


class CsvConfig(NodeConfig):
    """The table, and how it is written."""

    operation: Literal["parse", "write"] = Field(
        description="`parse` text into a list of rows, or `write` a list of rows as text."
    )
    source: Any = Field(
        description="The text; or the rows: objects, or lists of cells.",
        json_schema_extra=x_ui(widget="expression", placeholder="{{ ctx.file.body }}"),
    )
    delimiter: str = Field(",", description="What stands between cells: one character, such as `;` or a tab.")
    header: bool = Field(
        True,
        description="The first row has the names of the columns. Without it `parse` gives lists, unless `columns` are"
        " named.",
    )
    columns: list[str] | None = Field(
        None,
        max_length=COLUMNS_MAX,
        description="The names of the columns, in order: for `parse` instead of those in the text, for `write` those to"
        " write (without it, all that the objects have).",
    )

    @field_validator("delimiter")
    @classmethod
    def _one_character(cls, delimiter: str) -> str:
        if len(delimiter) != 1 or delimiter in '"\r\n' or not (delimiter.isprintable() or delimiter == "\t"):
            raise ValueError("the delimiter is one character, such as `,`, `;` or a tab, and no quote or line end")
        return delimiter


def evaluate(config: CsvConfig, work: TemplateBudget) -> Any:
    """A list of objects or lists, whose cells are texts; or text."""
    if config.source is None:
        return None
    return _parsed(config, work) if config.operation == "parse" else _written(config, work)


def _parsed(config: CsvConfig, work: TemplateBudget) -> list[Any]:
    text = text_of(config.source, _NODE, work).removeprefix(_BYTE_ORDER_MARK)
    rows = _rows(text, config.delimiter, work)
    names = next(rows, (0, []))[1] if config.header else None
    names = config.columns if config.columns is not None else names
    if names is not None and len(set(names)) < len(names):
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise Refused(f"`{_NODE}`: there are two columns {twice!r}; name the `columns`, or read lists without `header`")
    made: list[Any] = []
    size = 2
    for line, cells in rows:
        if names is not None and len(cells) > len(names):
            raise Refused(f"`{_NODE}`: the row in line {line} has {len(cells)} cells for {len(names)} columns")
        row = cells if names is None else dict(zip(names, cells, strict=False))
        size += 2 + sum(len(cell) + 3 for cell in cells) + (0 if names is None else sum(len(name) + 3 for name in row))
        check_size(size)
        made.append(row)
    work.built(made, size)
    return made


def _rows(text: str, delimiter: str, work: TemplateBudget) -> Iterator[tuple[int, list[str]]]:
    """The rows with the numbers of the lines that they end in; empty lines are left out."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            work.spend(ITEM_UNITS * (len(cells) + 1))
            if len(cells) > COLUMNS_MAX:
                raise Refused(f"`{_NODE}`: the row in line {reader.line_num} has more than {COLUMNS_MAX} cells")
            if cells:
                yield reader.line_num, cells
    except csv.Error as refusal:
        raise Refused(f"`{_NODE}`: line {reader.line_num} cannot be read: {refusal}") from None


def _written(config: CsvConfig, work: TemplateBudget) -> str:
    rows = config.source if isinstance(config.source, list) else [config.source]
    names = config.columns
    if names is None and any(isinstance(row, dict) for row in rows):
        names = list(dict.fromkeys(name for row in rows if isinstance(row, dict) for name in row))
        if len(names) > COLUMNS_MAX:
            raise Refused(f"`{_NODE}` writes at most {COLUMNS_MAX} columns, and the objects have {len(names)}")
    made = io.StringIO(newline="")
    writer = csv.writer(made, delimiter=config.delimiter, lineterminator="\n")
    if names is not None and config.header:
        writer.writerow(names)
    for index, row in enumerate(rows):
        cells = _cells(row, index, names)
        work.spend(ITEM_UNITS * (len(cells) + 1))
        writer.writerow(["" if cell is None else work.text_of(cell) for cell in cells])
        check_size(made.tell())
    return made.getvalue()


def _cells(row: Any, index: int, names: Sequence[str] | None) -> Sequence[Any]:
    if isinstance(row, dict) and names is not None:
        return [row.get(name) for name in names]
    if isinstance(row, list):
        return row
    raise Refused(f"`{_NODE}` writes objects or lists of cells, and row {index} is neither")


SPEC = HandlerSpec(
    type=_NODE,
    title="CSV",
    config=CsvConfig,
    execute=in_thread(evaluate),
    category="data",
    icon="sheet",
    description="Reads and writes tables as CSV.",
    side_effects="none",
    docs="#csv",
)
