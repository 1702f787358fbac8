"""Exports of n8n that were made to do harm: each is imported within seconds of computing, in a thread of its own.

What is bounded is the computing time that the kernel counts for a process that imports them all, and it is bounded
widely: what is not linear in its text takes minutes for one of them.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import threading
from typing import Any

import pytest

from anabranch.handlers import builtin_types
from anabranch.imports import import_service
from anabranch.imports.import_service import ImportService
from anabranch.n8n.exports import read_exports
from anabranch.n8n.importing import import_workflow
from anabranch.n8n.texts import CODE_LENGTH_MAX, TEXT_LENGTH_MAX
from tests.n8n.drawn import Drawn, node, set_to

# As long as a text may be.
LONG = 60_000
LONG_CODE = 250_000

# 60 seconds for all of them, of which they take 10.
COMPUTING_SECONDS_MAX = 60

SQL = {
    "comments": "/**/" * (LONG // 4) + "CREATE TABLE t(a int)",
    "open comments": "/*" * (LONG // 2),
    "dashes": "--\n" * (LONG // 3) + "x",
    "brackets": "(" * LONG,
    "quoted expressions": "='{{" * (LONG // 4),
    "quotes": "=" + "'" * LONG + "{{ $json.a }}",
    "blanks": "='" + " " * LONG + "{{ $json.a }}",
    "names": "=select 1 from" + " " * LONG + "{{ $json.a }}",
}
CODE = {
    "escaped quotes": "'\\" * (LONG_CODE // 2),
    "comments": "/*" * (LONG_CODE // 2),
    "lines": "\n" * LONG_CODE + "const",
    "constants": "".join(f"const a{n} = 'x';\n" for n in range(LONG_CODE // 20)) + "return $(a1)",
    "patterns": "=/[" * (LONG_CODE // 3),
    "parameters": "$a)" * (LONG_CODE // 3),
    "modules": "x = require('crypto');" * (LONG_CODE // 22),
    "forms of dates": "DateTime.fromFormat(a, '" + "y" * (LONG_CODE // 2) + "Q')",
    "differences": "DateTime.now().setZone('Europe/Berlin');" + ".diff(" * (LONG_CODE // 6),
    "languages": "a.toLocaleString('en-US'" + " " * (LONG_CODE // 2) + "x)",
    "pauses": "await new Promise(" + " " * (LONG_CODE // 2) + "x",
    "later": "return new Promise(r => { setTimeout(() => r(" + ")" * (LONG_CODE // 2),
    "nodes": "$('" * (LONG_CODE // 3),
    "reads of nodes": "$('Begin').item.json.a;" * (LONG_CODE // 25),
    "names of nodes": "$('Begin').first();" * (LONG_CODE // 20),
    "variables": "$env['" * (LONG_CODE // 6),
}
EXPRESSIONS = {
    "templates": "`${" * 40 + "1" + "}`" * 40,
    "brackets": "(" * (LONG // 2) + "1" + ")" * (LONG // 2),
    "few brackets": "(" * 40 + "1" + ")" * 40,
    "lists": "[" * 40 + "1" + "]" * 40,
    "comments": "1 " + "/*" * (LONG // 2),
    "patterns": "/[" * (LONG // 2),
    "choices": "$json.a" + " || $json.b" * 50,
}
PYTHON = {"attributes": "x.json\n" * (LONG // 7), "brackets": "(" * LONG, "names": "_items[" * (LONG // 7)}


def hostile() -> list[dict[str, Any]]:
    """The nodes of them."""
    return [
        *(node(f"SQL {name}", "postgres", 2.5, operation="executeQuery", query=text) for name, text in SQL.items()),
        *(node(f"Code {name}", "code", 2, jsCode=text) for name, text in CODE.items()),
        *(set_to(f"Set {name}", a=f"={{{{ {text} }}}}") for name, text in EXPRESSIONS.items()),
        set_to("Set many", a="={{ $json.a.foo(1) }}" * (LONG // 21)),
        *(node(f"Python {name}", "code", 2, language="python", pythonCode=text) for name, text in PYTHON.items()),
    ]


def import_each() -> None:
    """Import each of them in a workflow of its own."""
    types = builtin_types()
    for each in hostile():
        [workflow] = read_exports(Drawn(each["name"], "", [each], [], []).export())
        import_workflow(workflow, types)


def test_exports_that_were_made_to_do_harm_are_read_in_linear_time() -> None:
    code = "from tests.hardening.test_hostile_imports import import_each; import_each()"
    limit = (COMPUTING_SECONDS_MAX, COMPUTING_SECONDS_MAX)
    run = subprocess.run(
        [sys.executable, "-c", code], preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit), check=False
    )

    assert run.returncode == 0


@pytest.mark.parametrize(("kind", "length"), [("code", CODE_LENGTH_MAX), ("html", TEXT_LENGTH_MAX)])
def test_a_node_with_a_text_that_is_too_long_is_a_placeholder_that_says_so(kind: str, length: int) -> None:
    code = node("Code", kind, 1, jsCode="//" + "x" * length)
    [workflow] = read_exports(Drawn("Long", "", [code], [], []).export())
    report = import_workflow(workflow, builtin_types()).report

    assert [each.why for each in report.nodes if each.name == "Code"] == [
        f"one of its texts has more than {length} characters"
    ]


def test_imports_run_beside_what_answers_requests(monkeypatch: Any) -> None:
    threads: list[threading.Thread] = []

    def noted(*_given: Any, **_options: Any) -> list[Any]:
        threads.append(threading.current_thread())
        return []

    monkeypatch.setattr(import_service, "imported_together", noted)
    service = ImportService(drafts=None, node_types=builtin_types())  # type: ignore[arg-type]
    export = Drawn("Beside", "", [set_to("Set", a=1)], [], []).export()
    asyncio.run(service.import_n8n([export], tenant_id="t", timezone="UTC", save=False, actor="a"))

    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()
