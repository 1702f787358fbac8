"""`anabranch version`, as one of the commands; see `version_command`."""

from __future__ import annotations

from anabranch.cli.options import AsJson
from anabranch.cli.version_answer import print_version


def version(*, as_json: AsJson = False) -> None:
    """Print the version."""
    print_version(as_json=as_json)
