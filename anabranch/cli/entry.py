"""Where the command line begins and ends: the families put together, errors made into exit codes.

Called as `anabranch` and as `python -m anabranch`. Nobody sees a traceback: what a person can
act on is one line and a hint, a fault of ours is a line that names the file with its details.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from typing import NoReturn

import typer
from typer.exceptions import TyperException

from anabranch.cli import (
    about,
    audit,
    keys,
    migrate,
    openapi,
    queries,
    run,
    runs,
    schedules,
    secrets,
    serve,
    sources,
    topics,
    validate,
    workflows,
)
from anabranch.cli.output import print_error, shown
from anabranch.errors import (
    AddressUnusable,
    AnabranchError,
    BadJson,
    DataSourceInUse,
    InvalidInput,
    InvalidRequest,
    InvalidWorkflow,
    NameTaken,
    NoApiKey,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    SecretKeyMissing,
    SecretKeyWrong,
    SecretUnknown,
    SettingsError,
    TemplateError,
    TooLarge,
    UnknownWorkflow,
    ValueNotStorable,
    ValueTooLarge,
    VersionMismatch,
)

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT

# What was typed or written down has to change before the command can succeed.
_USAGE_ERRORS = (
    AddressUnusable,
    BadJson,
    DataSourceInUse,
    InvalidInput,
    InvalidRequest,
    InvalidWorkflow,
    NameTaken,
    NoApiKey,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    SecretKeyMissing,
    SecretKeyWrong,
    SecretUnknown,
    SettingsError,
    TemplateError,
    TooLarge,
    UnknownWorkflow,
    ValueNotStorable,
    ValueTooLarge,
    VersionMismatch,
)

application = typer.Typer(
    name="anabranch",
    help="A workflow engine for work that must not get lost.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
application.command("dev")(serve.dev)
application.command("serve")(serve.serve)
application.command("worker")(serve.worker)
application.command("run")(run.run)
application.command("validate")(validate.validate)
application.command("migrate")(migrate.migrate)
application.add_typer(workflows.family, name="workflows")
application.add_typer(runs.family, name="runs")
application.add_typer(secrets.family, name="secrets")
application.add_typer(sources.family, name="sources")
application.add_typer(queries.family, name="queries")
application.add_typer(schedules.family, name="schedules")
application.add_typer(topics.family, name="topics")
application.add_typer(keys.family, name="keys")
application.command("audit")(audit.audit)
application.command("openapi")(openapi.openapi)
application.command("doctor")(about.doctor)
application.command("version")(about.version)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and leave with its exit code: 0 done, 1 failed, 2 to be corrected, 130 interrupted."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    _log_to_standard_error()
    sys.exit(_exit_code_of(arguments))


def _exit_code_of(arguments: Sequence[str]) -> int:
    as_json = "--json" in arguments
    try:
        code = application(args=list(arguments), prog_name="anabranch", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except TyperException as misuse:
        print_error(_usage_error(misuse), as_json=as_json)
        return EXIT_USAGE
    except AnabranchError as error:
        print_error(error, as_json=as_json)
        return EXIT_USAGE if isinstance(error, _USAGE_ERRORS) else EXIT_FAILED
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has seen enough (`| head`). Python would complain at exit otherwise.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except Exception as fault:  # noqa: BLE001  # the last border: everything else ends here, in one line
        print_error(_fault(fault), as_json=as_json)
        return EXIT_FAILED


def _usage_error(misuse: TyperException) -> AnabranchError:
    context = getattr(misuse, "ctx", None)
    path = "anabranch" if context is None else context.command_path
    return InvalidRequest(
        misuse.format_message() or "a command is missing", hint=f"`{path} --help` shows what it takes."
    )


def _fault(fault: Exception) -> AnabranchError:
    with tempfile.NamedTemporaryFile("w", prefix="anabranch-error-", suffix=".txt", delete=False) as report:
        traceback.print_exception(fault, file=report)
    return AnabranchError(
        f"{type(fault).__name__}: {fault}",
        hint=f"This is a fault of anabranch. Please report it with what you did; {report.name} has the details.",
    )


class _OneLine(logging.Handler):
    """Logs warnings as single lines, on whatever standard error is at the time (a live display replaces it)."""

    def emit(self, record: logging.LogRecord) -> None:
        reason = (
            f" ({record.exc_info[0].__name__}: {record.exc_info[1]})" if record.exc_info and record.exc_info[0] else ""
        )
        instance = getattr(record, "instance_id", None)
        place = f" [run {instance}]" if instance else ""
        sys.stderr.write(shown(f"{record.levelname.lower()}: {record.getMessage()}{reason}{place}") + "\n")


def _log_to_standard_error() -> None:
    logger = logging.getLogger("anabranch")
    if not any(isinstance(handler, _OneLine) for handler in logger.handlers):
        logger.addHandler(_OneLine(logging.WARNING))
        logger.propagate = False
