"""Import user code: modules and files of `--import`, and those of the project in the current folder.

Called by `session` before the database is opened, by `target`, and by `project` when the code has changed. Errors name
the line in the user's code, without a traceback.
"""

from __future__ import annotations

import importlib
import importlib.util
import linecache
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from anabranch.deferred import deferred
from anabranch.errors import AnabranchError, InvalidRequest

if TYPE_CHECKING:
    from anabranch.durable import definition
    from anabranch.handlers import declare
else:
    definition = deferred("anabranch.durable.definition")
    declare = deferred("anabranch.handlers.declare")

_FILE_SUFFIX = ".py"

# Whose lines an author need not be shown.
_OUR_FILES = f"{Path(__file__).parents[1]}{os.sep}"
_LIBRARY_FILES = f"{Path(traceback.__file__).parent}{os.sep}"
_INSTALLED = ("site-packages", "dist-packages")


def import_user_code(name: str, *, option: str = "--import") -> str:
    """Import a module, or a file by its path, which can import files beside it, as a Python script can. Returns the
    module's name.

    Raises InvalidRequest with the option, the error and its line.
    """
    path = Path(name)
    is_file = path.suffix == _FILE_SUFFIX
    if is_file and not path.is_file():
        raise InvalidRequest(f"{option} {name}: no such file", hint="Name a .py file, or a module without its suffix.")
    # It stays so: functions import when they are called, too.
    _look_in(path.resolve().parent if is_file else Path.cwd())
    try:
        if is_file:
            return _import_file(path.resolve())
        importlib.import_module(name)
    except (Exception, SystemExit) as failure:  # a module that calls sys.exit must not choose our exit code
        raise _refusal(f"{option} {name}", name, failure, is_file=is_file) from failure
    return name


def reload_user_code(names: Sequence[str]) -> None:
    """Import user code again, with all modules of the user that it imports; if that fails, everything stays as it was.

    What executes goes on with the code that it began with. Must be called on the event loop: nothing may look for a
    declaration meanwhile. Raises InvalidRequest as `import_user_code` does.
    """
    before = user_modules(names)
    with _no_bytecode(), definition.DECLARED.redeclaring(before), declare.redeclaring(before):
        _remove(before)
        try:
            for name in names:
                import_user_code(name)
        except BaseException:
            _remove(user_modules(names))
            sys.modules.update(before)
            raise


def user_modules(names: Sequence[str]) -> dict[str, ModuleType]:
    """The imported modules below the current folder, and below those of the named files; installed ones are not the
    user's."""
    folders = {Path.cwd(), *(Path(name).resolve().parent for name in names if name.endswith(_FILE_SUFFIX))}
    roots = tuple(f"{folder}{os.sep}".replace(os.sep * 2, os.sep) for folder in folders)
    return {name: module for name, module in list(sys.modules.items()) if _is_of_user(name, module, roots)}


def _is_of_user(name: str, module: ModuleType, roots: tuple[str, ...]) -> bool:
    file = getattr(module, "__file__", None)
    if file is None or name == "__main__" or not file.startswith(roots):
        return False
    return not file.startswith((_OUR_FILES, _LIBRARY_FILES)) and not set(_INSTALLED).intersection(Path(file).parts)


def _remove(modules: dict[str, ModuleType]) -> None:
    for name in modules:
        del sys.modules[name]
    importlib.invalidate_caches()
    linecache.checkcache()


@contextmanager
def _no_bytecode() -> Iterator[None]:
    """Compiled files are compared by whole seconds: of two changes in one second, the second would not be seen."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def _look_in(folder: Path) -> None:
    """Before installed packages, as `python FILE` does, but after Python's own modules.

    Libraries are imported after user code too, and a `calendar.py` of a user must not be what they find.
    """
    if str(folder) not in sys.path:
        installed = (number for number, entry in enumerate(sys.path) if Path(entry).name in _INSTALLED)
        sys.path.insert(next(installed, len(sys.path)), str(folder))


def _import_file(path: Path) -> str:
    # A file may have the name of a standard module, which other code must still find.
    name = f"user_{path.stem}" if path.stem in sys.stdlib_module_names else path.stem
    if _is_imported(sys.modules.get(name), path):
        return name  # a neighbour has imported it: a second copy would declare everything twice
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, "the suffix has a loader"
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module  # before it runs: dataclasses and pydantic look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before
        raise
    return name


def _is_imported(module: ModuleType | None, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve() == path


def _refusal(given: str, name: str, failure: BaseException, *, is_file: bool) -> InvalidRequest:
    if isinstance(failure, ModuleNotFoundError) and not is_file and f"{name}.".startswith(f"{failure.name}."):
        return InvalidRequest(
            f"{given}: no module named {failure.name!r}",
            hint="Name a module that Python finds from here, or a .py file.",
        )
    hint = failure.advice if isinstance(failure, AnabranchError) else "Correct the code at that line."
    return InvalidRequest(f"{given}: {_source_position(failure)}{type(failure).__name__}: {failure}", hint=hint)


def _source_position(failure: BaseException) -> str:
    """The innermost line of the author's code in the traceback, or else of an installed package."""
    if isinstance(failure, SyntaxError) and failure.filename is not None:
        return f"{failure.filename}, line {failure.lineno}: "
    frames = [
        frame
        for frame in traceback.extract_tb(failure.__traceback__)
        if not frame.filename.startswith((_OUR_FILES, _LIBRARY_FILES, "<"))
    ]
    own = [frame for frame in frames if not set(_INSTALLED).intersection(Path(frame.filename).parts)] or frames
    return f"{own[-1].filename}, line {own[-1].lineno}: " if own else ""
