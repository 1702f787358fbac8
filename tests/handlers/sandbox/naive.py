"""What the attacks are aimed at: code run without any sandbox. A program of its own, for it does not survive them.

    python naive.py python|javascript MEMORY_MB < BODY
    python naive.py sealed MEMORY_MB < BODY

The first runs a body by plain `exec`, or in a bare engine, with no limit but one of memory that
spares the machine. `sealed` runs it by plain `exec` too, but in a process hardened like a child of the sandbox.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import resource
import sys
import types
from pathlib import Path


def main() -> None:
    how, memory_mb, body = sys.argv[1], int(sys.argv[2]), sys.stdin.read()
    if how == "javascript":
        resource.setrlimit(resource.RLIMIT_AS, (memory_mb << 20, memory_mb << 20))
        os.write(1, run_javascript(body).encode())
        return
    if how == "sealed":
        seal(memory_mb, body)
    else:
        resource.setrlimit(resource.RLIMIT_AS, (memory_mb << 20, memory_mb << 20))
    value = run_python(body)
    os.write(1, json.dumps(value).encode())


def run_python(body: str) -> object:
    lines = body.replace("\r", "\n").replace("\x0c", "").split("\n")
    names: dict[str, object] = {}
    exec("def node(ctx):\n" + "\n".join("    " + line for line in lines), names)
    return names["node"]({})  # type: ignore[operator]


def run_javascript(body: str) -> str:
    engine = importlib.import_module("_quickjs").Context()
    engine.add_callable("log", lambda text: None)
    engine.eval("globalThis.console = {log: (v) => log(JSON.stringify(v))}; let answer = 'nothing'")
    wrapped = (
        f"(async function (ctx) {{\n{body}\n}})({{}})"
        ".then((value) => { answer = JSON.stringify(value) }, (e) => { answer = 'thrown ' + e + e.message + e.stack })"
    )
    engine.eval(wrapped)
    while engine.execute_pending_job():
        pass
    return str(engine.eval("answer + ' ' + globalThis.forged"))


def seal(memory_mb: int, body: str) -> None:
    for name in ("anabranch", "anabranch.handlers", "anabranch.handlers.sandbox"):  # without loading the service
        shell = types.ModuleType(name)
        shell.__path__ = [str(Path(__file__).parents[3].joinpath(*name.split(".")))]
        sys.modules[name] = shell
    hardening = importlib.import_module("anabranch.handlers.sandbox.inside.hardening")
    # All that the body will import: it shall fail at the wall, not for want of a module.
    for name in re.findall(r"(?:^|\n|: )import ([\w.]+)(?:, (\w+))?", body):
        for each in filter(None, name):
            importlib.import_module(each)
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        os._exit(abs(os.waitstatus_to_exitcode(status)))
    # A pipe is all that is left, in the place of standard output.
    out = os.dup(1)
    report: dict[str, str] = {}
    hardening.isolate(report)
    hardening.harden(report, keep=out, slot=7, parent=os.getppid())
    os.dup2(out, 1)
    hardening.seal(report, address_bytes=memory_mb << 20, cpu_seconds=5)
    assert report["seccomp"] == "yes", report


if __name__ == "__main__":
    main()
