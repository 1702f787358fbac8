"""Ask a real n8n what the fifteen workflows give, and compare: `python -m benchmarks.ask_n8n`.

A script, not a test: it needs `n8n` on the PATH (`npm install --global n8n`), which is some gigabyte. Each workflow is
begun by hand with its items from a code node, and executed by `n8n execute`. Workflows that ask other systems are left
out. It prints the names of those that differ, and ends with 1 if there are any.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.n8n.drawn import DRAWN, Drawn, node


def begun_by_hand(drawn: Drawn) -> dict[str, Any]:
    """The export with a manual trigger and the items in place of its beginning."""
    export = drawn.export()
    code = node("Begin", "code", 2, jsCode=f"return {json.dumps([{'json': item} for item in drawn.items])};")
    begin = node("By hand", "manualTrigger", 1)
    export["nodes"] = [{"position": [-400, 0], **begin}, {"position": [-200, 0], **code}, *export["nodes"][1:]]
    export["connections"]["By hand"] = {"main": [[{"node": "Begin", "type": "main", "index": 0}]]}
    return {"id": "compared", "active": False, **export}


def answer_of_n8n(drawn: Drawn, folder: Path) -> list[Any]:
    """The items of the node that n8n executes last; none if it executes nothing there."""
    file = folder / "workflow.json"
    file.write_text(json.dumps(begun_by_hand(drawn)))
    environment = {"N8N_USER_FOLDER": str(folder), "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder)}
    subprocess.run(["n8n", "import:workflow", f"--input={file}"], check=True, env=environment, capture_output=True)
    ran = subprocess.run(
        ["n8n", "execute", "--id=compared", "--rawOutput"], check=True, env=environment, capture_output=True, text=True
    )
    result = json.loads(ran.stdout[ran.stdout.index("{") :])["data"]["resultData"]
    last = result["runData"].get(drawn.nodes[-1]["name"], [])
    return [item["json"] for run in last[-1:] for output in run["data"]["main"] for item in output or ()]


def main() -> None:
    """Compare all that need no other system."""
    if shutil.which("n8n") is None:
        sys.exit("there is no n8n on the PATH: npm install --global n8n")
    differing = []
    with tempfile.TemporaryDirectory() as folder:
        for drawn in DRAWN:
            if drawn.answers:
                continue
            given = answer_of_n8n(drawn, Path(folder))
            if given != list(drawn.gives):
                differing.append(drawn.name)
                print(f"{drawn.name}: n8n gives {json.dumps(given)}, here it is {json.dumps(list(drawn.gives))}")
    print(f"{len(differing)} of {len(DRAWN)} differ")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
