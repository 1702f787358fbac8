"""The main program of a driver process: run by path, by a bare interpreter.

    python -I -S -B start_driver.py SOCKET LIFELINE KIND FOLDER...

The folders are the import path of the service. `anabranch.queries` is entered as an empty module, so that what it
imports is not loaded here: a driver process is small and starts quickly.
"""

from __future__ import annotations

import sys
import types
from importlib import import_module
from pathlib import Path

_QUERIES = Path(__file__).resolve().parents[1]

if __name__ == "__main__":
    connection, lifeline, kind, *folders = sys.argv[1:]
    # The folder of this script is not a place to import from: it is the package's inside.
    sys.path[:] = [entry for entry in sys.path if entry != str(Path(__file__).parent)] + folders
    shell = types.ModuleType("anabranch.queries")
    shell.__path__ = [str(_QUERIES)]
    sys.modules["anabranch.queries"] = shell
    import_module("anabranch.queries.drivers.serve").serve(int(connection), int(lifeline), kind)
