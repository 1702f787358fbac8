"""The command line: what people type, and what scripts read with `--json`.

One family of commands a file; `entry` puts them together and is the only place where errors
become exit codes. Commands ask the service façade; none of them knows tables or rules of runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.deferred import exported_from

if TYPE_CHECKING:
    from anabranch.cli.entry import main
else:
    __getattr__ = exported_from(__name__, {"main": "anabranch.cli.entry"})

__all__ = ["main"]
