"""`anabranch version`."""

from __future__ import annotations

import platform

from anabranch.cli.options import AsJson
from anabranch.cli.output import print_document, print_line
from anabranch.version import __version__


def version(*, as_json: AsJson = False) -> None:
    """Print the version."""
    document = {"version": __version__, "python": platform.python_version()}
    if as_json:
        print_document(document)
    else:
        print_line(f"anabranch {document['version']} (Python {document['python']})")
