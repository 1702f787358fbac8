"""The main program of a fork server: run by path, by a bare interpreter, with an empty environment.

    python -I -S -B start_sealed.py SOCKET LANGUAGE REQUIRED|UNSAFE FOLDER...

The folders are those of the language packages. The parents of this package are entered as empty modules, so that what
they import (the whole service) is not loaded here.
"""

from __future__ import annotations

import json
import os
import sys
import types
from importlib import import_module
from pathlib import Path

_SANDBOX = Path(__file__).resolve().parents[1]
_SHELLS = {
    "anabranch": _SANDBOX.parents[1],
    "anabranch.handlers": _SANDBOX.parent,
    "anabranch.handlers.sandbox": _SANDBOX,
}

if __name__ == "__main__":
    control, language, seccomp, *folders = sys.argv[1:]
    # Nothing may be imported from the folder of this script: it is internal to the package.
    sys.path[:] = [entry for entry in sys.path if entry != str(Path(__file__).parent)] + folders
    for name, folder in _SHELLS.items():
        shell = types.ModuleType(name)
        shell.__path__ = [str(folder)]
        sys.modules[name] = shell
    try:
        fork_server = import_module("anabranch.handlers.sandbox.inside.fork_server")
        fork_server.serve(int(control), language, requires_seccomp=seccomp != "UNSAFE")
    except Exception as failure:  # noqa: BLE001 -- the service has no other way to learn of it
        message = json.dumps({"failed": f"{type(failure).__name__}: {failure}"}).encode()
        os.write(int(control), len(message).to_bytes(4, "big") + message)
