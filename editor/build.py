"""Builds and checks the pages: `python editor/build.py bundle | check | types | serve`.

`bundle` writes `anabranch/pages/bundle`, from which the server answers, unless it was made from exactly these
sources. `check` runs the type checker, the linter and the unit tests, unless they have passed for these sources.
`types` writes `src/api/schema.ts` from our OpenAPI document; `check` fails while it is stale. `serve` shows the pages
of a running server and follows each change of the sources.

Called by `make` and, for `bundle`, by the hook that builds sdist and wheel. Needs nothing but Python itself.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

EDITOR = Path(__file__).resolve().parent
sys.path.insert(0, str(EDITOR.parent))

from editor.toolchain import ToolMissing, install_node, install_packages, node_environ  # noqa: E402

BUNDLE = EDITOR.parent / "anabranch" / "pages" / "bundle"
MANIFEST = BUNDLE / "manifest.json"
SCHEMA = EDITOR / "src" / "api" / "schema.ts"

_CHECKED = EDITOR / "node_modules" / ".cache" / "checked"


def source_hash(*, with_tests: bool = False) -> str:
    """A hash of all that the bundle is made from, and with the tests of what is checked."""
    digest = hashlib.sha256()
    for path in sorted(_sources()):
        if with_tests or ".test." not in path.name:
            digest.update(f"{path.relative_to(EDITOR)}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def bundle_is_fresh() -> bool:
    """Was the bundle that is there made from these sources?"""
    try:
        return bool(json.loads(MANIFEST.read_text("utf-8"))["source"] == source_hash())
    except (OSError, ValueError, KeyError):
        return False


def build_bundle() -> None:
    """Build the bundle unless it is fresh. Raises ToolMissing where it cannot be built."""
    if bundle_is_fresh():
        return
    _say("building the pages (editor/) into anabranch/pages/bundle; the first time that takes a minute")
    source = source_hash()
    _node("node_modules/vite/bin/vite.js", "build", "--logLevel", "warn")
    files = sorted(str(path.relative_to(BUNDLE)) for path in BUNDLE.rglob("*") if path.is_file())
    MANIFEST.write_text(json.dumps({"source": source, "files": files}, indent=1) + "\n", "utf-8")


def check() -> None:
    """Types, lint, tests, and that the generated types are those of our API. Raises ToolMissing with what is wrong."""
    document = _openapi()
    if not SCHEMA.exists() or _schema_header(document) not in SCHEMA.read_text("utf-8"):
        raise ToolMissing("editor/src/api/schema.ts is not that of our OpenAPI document: run `make editor-types`")
    sources = source_hash(with_tests=True)
    if _CHECKED.exists() and _CHECKED.read_text("utf-8") == sources:
        return
    _node("node_modules/typescript/bin/tsc", "--build")
    _node("node_modules/eslint/bin/eslint.js", "--cache", "--cache-location", "node_modules/.cache/eslint", ".")
    _node("node_modules/vitest/vitest.mjs", "run", "--reporter=dot")
    _CHECKED.write_text(sources, "utf-8")


def write_types() -> None:
    """Generate the types of the REST API from our OpenAPI document."""
    document = _openapi()
    saved = EDITOR / "node_modules" / ".cache" / "openapi.json"
    _prepare()
    saved.parent.mkdir(exist_ok=True)
    saved.write_bytes(document)
    generator = "node_modules/openapi-typescript/bin/cli.js"
    _node(generator, str(saved), "--default-non-nullable", "false", "--output", str(SCHEMA))
    SCHEMA.write_text(
        "\n".join((_schema_header(document), SCHEMA.read_text("utf-8"), *_operation_lines(document), "")), "utf-8"
    )


def serve() -> None:
    """Show the pages of a running server, with hot reload. Ends with Ctrl-C."""
    _node("node_modules/vite/bin/vite.js")


def main(arguments: list[str]) -> int:
    """Run one command; 1 with a line that says why if it fails."""
    commands = {"bundle": build_bundle, "check": check, "types": write_types, "serve": serve}
    if len(arguments) != 1 or arguments[0] not in commands:
        sys.stderr.write(f"usage: python editor/build.py {' | '.join(commands)}\n")
        return 2
    try:
        commands[arguments[0]]()
    except ToolMissing as missing:
        sys.stderr.write(f"error: {missing}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _sources() -> Iterator[Path]:
    for path in EDITOR.iterdir():
        if path.is_file() and path.suffix in (".json", ".ts", ".js", ".html"):
            yield path
    yield from (path for path in (EDITOR / "src").rglob("*") if path.is_file())


def _openapi() -> bytes:
    """Our OpenAPI document, in one form whatever the version of a library wrote it."""
    command = [sys.executable, "-m", "anabranch", "openapi"]
    done = subprocess.run(command, cwd=EDITOR.parent, capture_output=True, check=False)
    if done.returncode != 0:
        raise ToolMissing(f"`anabranch openapi` fails: {done.stderr.decode()[-500:]}")
    document = json.loads(done.stdout)
    document["info"].pop("version", None)  # a release changes no type
    return json.dumps(document, sort_keys=True).encode()


def _schema_header(document: bytes) -> str:
    return f"// Generated by `make editor-types` from the OpenAPI document {hashlib.sha256(document).hexdigest()[:16]}."


def _operation_lines(document: bytes) -> Iterator[str]:
    """The method and path of each operation: what a typed client needs of the document while it runs."""
    yield "/** The method and the path of each operation. */"
    yield "export const OPERATIONS = {"
    for path, methods in sorted(json.loads(document)["paths"].items()):
        for method, operation in sorted(methods.items()):
            yield f'  {operation["operationId"]}: ["{method.upper()}", "{path}"],'
    yield "} as const satisfies Record<string, readonly [method: string, path: string]>;"


def _prepare() -> Path:
    node = install_node(_say)
    install_packages(EDITOR, node, _say)
    return node


def _node(*command: str) -> None:
    """Run a program of our packages; what it prints is for the person who called us."""
    node = _prepare()
    if subprocess.run([str(node), *command], cwd=EDITOR, env=node_environ(node), check=False).returncode != 0:
        raise ToolMissing(f"`{Path(command[0]).name} {' '.join(command[1:])}` fails, see above")


def _say(what: str) -> None:
    sys.stdout.write(f"editor: {what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
