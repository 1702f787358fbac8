"""Ask a real n8n what the workflows of the tests give, and compare: `python -m benchmarks.ask_n8n`.

A script, not a test: it needs `n8n` on the PATH (`npm install --global n8n`), which is some gigabyte. Each workflow is
begun by hand with its items from a code node, and executed by `n8n execute`. Workflows that ask other systems are left
out. It prints the names of those that differ, and ends with 1 if there are any.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.n8n.drawn import DRAWN, Drawn, node
from tests.n8n.drawn_code import DRAWN_CODE
from tests.n8n.drawn_data import DRAWN_DATA
from tests.n8n.drawn_lists import DRAWN_DATES, DRAWN_LIMITS, DRAWN_LISTS, DRAWN_ODD, DRAWN_SETS
from tests.n8n.drawn_merges import DRAWN_MERGES
from tests.n8n.drawn_pairs import DRAWN_PAIRS

# Two minutes for one command of n8n: it takes ten seconds to begin.
COMMAND_S_MAX = 120


def begun_by_hand(drawn: Drawn, name: str) -> dict[str, Any]:
    """The export with a manual trigger and the items in place of its beginning."""
    export = drawn.export()
    code = node("Begin", "code", 2, jsCode=f"return {json.dumps([{'json': item} for item in drawn.items])};")
    begin = node("By hand", "manualTrigger", 1)
    export["nodes"] = [{"position": [-400, 0], **begin}, {"position": [-200, 0], **code}, *export["nodes"][1:]]
    export["connections"]["By hand"] = {"main": [[{"node": "Begin", "type": "main", "index": 0}]]}
    for number, each in enumerate(export["nodes"]):
        each["id"] = f"{name}-{number}"
    return {"id": name, "active": False, **export}


class InstalledN8n:
    """The commands of an n8n on this machine, with a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._environment = {**os.environ, "N8N_USER_FOLDER": str(folder), "HOME": str(folder),
                             "N8N_DIAGNOSTICS_ENABLED": "false", "TZ": "UTC", "GENERIC_TIMEZONE": "UTC",
                             "NODE_FUNCTION_ALLOW_BUILTIN": "crypto", "NODE_FUNCTION_ALLOW_EXTERNAL": "luxon",
                             "N8N_RUNNERS_ENABLED": "false"}  # fmt: skip

    def run(self, *arguments: str) -> str:
        """What a command prints."""
        ran = subprocess.run(
            ["n8n", *arguments], check=False, env=self._environment, capture_output=True, text=True,
            timeout=COMMAND_S_MAX,
        )  # fmt: skip
        if ran.returncode != 0 and "{" not in ran.stdout:
            raise RuntimeError(f"n8n {arguments[0]} ended with {ran.returncode}: {(ran.stderr or ran.stdout)[-500:]}")
        return ran.stdout

    def items_of(self, name: str, last: str) -> list[Any]:
        """The items of a node after a workflow; none if it was not executed."""
        said = self.run("execute", f"--id={name}", "--rawOutput")
        result = json.JSONDecoder().raw_decode(said[said.index("{") :])[0]["data"]["resultData"]
        if "error" in result:
            return [{"failed": result["error"].get("message")}]
        runs = result["runData"].get(last, [])
        return [item["json"] for run in runs[-1:] for output in run["data"]["main"][:1] for item in output or ()]


def main() -> None:
    """Compare all that need no other system."""
    if shutil.which("n8n") is None:
        sys.exit("there is no n8n on the PATH: npm install --global n8n")
    asked = {
        f"drawn-{number}": drawn
        for number, drawn in enumerate(
            [
                *DRAWN,
                *DRAWN_CODE,
                *DRAWN_DATA,
                *DRAWN_LISTS,
                *DRAWN_SETS,
                *DRAWN_LIMITS,
                *DRAWN_ODD,
                *DRAWN_DATES,
                *DRAWN_PAIRS,
                *DRAWN_MERGES,
            ]
        )
        if not drawn.answers
    }
    differing = 0
    with tempfile.TemporaryDirectory() as folder:
        n8n, file = InstalledN8n(Path(folder)), Path(folder, "workflows.json")
        file.write_text(json.dumps([begun_by_hand(drawn, name) for name, drawn in asked.items()]))
        n8n.run("import:workflow", f"--input={file}")
        for name, drawn in asked.items():
            given, wanted = n8n.items_of(name, drawn.nodes[-1]["name"]), list(drawn.gives)
            differing += given != wanted
            shown = "the same" if given == wanted else f"n8n gives {json.dumps(given)}, here it is {json.dumps(wanted)}"
            print(f"{drawn.name}: {shown}", flush=True)
    print(f"{differing} of {len(asked)} differ")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
