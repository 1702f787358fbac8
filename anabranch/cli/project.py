"""The project in the current folder: what `anabranch dev` loads from it at start, and again when it changes.

A folder with a subfolder `workflows` is a project: `app.py` and `workflows/*.py` are its code, `workflows/*.json` its
drawn workflows. Elsewhere an `app.py` may be anybody's, and is left alone.

Called by `dev`. Files are the source: a drawn workflow is saved when its file differs from the newest version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from anabranch.cli.options import CLI_ACTOR, DEFAULT_TENANT
from anabranch.cli.output import error_lines, print_error, print_note, problem_line
from anabranch.cli.user_code import reload_user_code, user_modules
from anabranch.deferred import deferred
from anabranch.errors import AnabranchError, InvalidRequest
from anabranch.json_input import read_workflow_file

if TYPE_CHECKING:
    from anabranch.app_services import AppServices
    from anabranch.durable import definition
else:
    definition = deferred("anabranch.durable.definition")

WORKFLOWS_FOLDER = Path("workflows")
APP_FILE = Path("app.py")

# 300 ms between two looks at the files: a save is in force within a second, and looking costs nothing to speak of.
LOOK_S = 0.3

_Signature: TypeAlias = tuple[int, int, int]


class Project:
    """Code and drawn workflows in files."""

    def __init__(self, *, imports: Sequence[str], documents: Sequence[Path]) -> None:
        """`imports` and `documents` are named on the command line, and followed like those of the folder."""
        self._imports = imports
        self._named = documents
        self._seen: dict[Path, _Signature | None] = {}
        self._reported: dict[Path, tuple[str, int]] = {}
        self.changed()  # the first look is before anything is loaded: what changes meanwhile is not missed

    def code(self) -> list[str]:
        """The modules to import, in this order."""
        app = [APP_FILE] if WORKFLOWS_FOLDER.is_dir() and APP_FILE.is_file() else []
        return [*map(str, app), *map(str, sorted(WORKFLOWS_FOLDER.glob("*.py"))), *self._imports]

    def drawn(self) -> list[Path]:
        """The drawn workflows of the folder."""
        return sorted(WORKFLOWS_FOLDER.glob("*.json"))

    def documents(self) -> list[Path]:
        """These, and those named on the command line."""
        return [*self.drawn(), *self._named]

    def changed(self) -> set[Path]:
        """The files that differ from the last look."""
        code = self.code()
        listed = {*map(Path, code), *self.documents()}
        if code:
            listed.update(Path().glob("*.py"))
        imported = {Path(module.__file__) for module in user_modules(code).values() if module.__file__}
        now = {path: _signature(path) for path in {*listed, *self._seen, *imported}}
        # A module that was imported since the last look is not a change.
        changed = {
            path
            for path, signature in now.items()
            if (path in self._seen or path in listed) and self._seen.get(path) != signature
        }
        self._seen = now
        return changed

    async def save(self, path: Path, services: AppServices) -> list[str]:
        """Save a drawn workflow. Returns what to tell the user; nothing if its version is the one that was told last.

        Raises as `read_workflow_file` and `save_workflow` do.
        """
        document = read_workflow_file(path)
        saved, report = await services.workflows.save_workflow(document, tenant_id=DEFAULT_TENANT, actor=CLI_ACTOR)
        if self._reported.get(path) == (saved.name, saved.version):
            return []
        self._reported[path] = (saved.name, saved.version)
        warnings = [f"warning {problem_line(warning.as_json())}" for warning in report.warnings]
        return [*warnings, f"the workflow {saved.name} is ready, in version {saved.version}"]

    async def save_all(self, paths: Iterable[Path], services: AppServices) -> list[str]:
        """Save drawn workflows. Returns what to tell the user, also of those that are refused."""
        notes: list[str] = []
        for path in paths:
            try:
                notes += await self.save(path, services)
            except AnabranchError as refusal:
                self._reported.pop(path, None)
                notes += [f"{path} is not saved", *error_lines(refusal)]
        return notes

    def follow_until_stop(self, services: AppServices, *, active: bool) -> None:
        """Bring every change of the files into force, until the process begins to stop.

        Executions go on with the code that they began with; functions that wait are replayed on the new code. With
        `active` the declared versions become the active ones.
        """
        following = asyncio.create_task(self._follow(services, active=active))

        def stop() -> None:
            following.cancel()

        services.readiness.when_stopping(stop)

    async def _follow(self, services: AppServices, *, active: bool) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            changed = self.changed()
            if not changed:
                continue
            await asyncio.sleep(LOOK_S)
            while more := self.changed():  # an editor or a checkout is still writing
                changed |= more
                await asyncio.sleep(LOOK_S)
            paths = [path for path in self.documents() if path in changed]
            if any(path.suffix == ".py" for path in changed) and await self._reload(services, active=active):
                paths = self.documents()  # a node type may be new
            for note in await self.save_all(paths, services):
                print_note(note)

    async def _reload(self, services: AppServices, *, active: bool) -> bool:
        """Load the code again; False: it is refused, and stays as it was."""
        try:
            reload_user_code(self.code())
        except InvalidRequest as refusal:
            print_error(refusal, as_json=False)
            print_note("the previous code stays active")
            return False
        print_note("the code was reloaded")
        try:
            await definition.register(services.engine.store, definition.DECLARED, active=active)
        except AnabranchError as refusal:
            print_error(refusal, as_json=False)
        return True


def _signature(path: Path) -> _Signature | None:
    """A signature that changes with every save; None if there is no such file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
