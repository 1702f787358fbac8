"""Entry point of the command line: collects the commands and maps errors to exit codes.

Called as `anabranch` and as `python -m anabranch`. Users see no tracebacks: an
error is one line and a hint, a defect is one line with the name of a file that has the details.
"""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, NoReturn

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from anabranch import errors
from anabranch.cli.lazy_commands import LazyCommands
from anabranch.cli.output import answers_apart, drop_answers, flush_answers, print_error, shown
from anabranch.deferred import deferred
from anabranch.errors import AnabranchError, InvalidRequest

# Only for faults.
if TYPE_CHECKING:
    import tempfile
    import traceback
else:
    tempfile = deferred("tempfile")
    traceback = deferred("traceback")

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT

# They print a document without being asked to.
_EXPORTS, _DESCRIPTIONS = (("workflows", "export"), ("runs", "export")), (("openapi",), ("schema",))

# Errors for which the command line or a file has to be changed.
_USAGE_ERRORS = (
    errors.AddressUnusable,
    errors.BadJson,
    errors.DatabaseMissing,
    errors.DataSourceInUse,
    errors.InvalidInput,
    errors.InvalidRequest,
    errors.InvalidWorkflow,
    errors.NoManualStart,
    errors.NameTaken,
    errors.NoApiKey,
    errors.NotAuthenticated,
    errors.NotFound,
    errors.NotPermitted,
    errors.SecretKeyMissing,
    errors.SecretKeyWrong,
    errors.SecretUnknown,
    errors.SettingsError,
    errors.TemplateError,
    errors.TooLarge,
    errors.UnknownNodeType,
    errors.UnknownWorkflow,
    errors.ValueNotStorable,
    errors.ValueTooLarge,
    errors.VersionMismatch,
)

application = TyperGroup(
    name="anabranch",
    help="A workflow engine for work that must not get lost.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# Every command and where it is: a `typer.Typer` for a family of commands, a function for a single one.
application.commands = LazyCommands(
    {
        "dev": "anabranch.cli.commands.serve_command:dev",
        "serve": "anabranch.cli.commands.serve_command:serve",
        "worker": "anabranch.cli.commands.serve_command:worker",
        "executor": "anabranch.cli.commands.serve_command:executor",
        "new": "anabranch.cli.commands.new_command:new",
        "run": "anabranch.cli.commands.run_command:run",
        "import": "anabranch.imports.import_commands:family",
        "validate": "anabranch.cli.commands.validate_command:validate",
        "fmt": "anabranch.cli.commands.format_command:fmt",
        "migrate": "anabranch.cli.commands.migrate_command:migrate",
        "workflows": "anabranch.cli.commands.workflows_command:family",
        "runs": "anabranch.cli.commands.runs_command:family",
        "pause": "anabranch.cli.commands.pause_command:pause",
        "resume": "anabranch.cli.commands.pause_command:resume",
        "explain": "anabranch.cli.commands.explain_command:explain",
        "verify": "anabranch.cli.commands.verify_command:verify",
        "replay": "anabranch.cli.commands.replay_command:replay",
        "secrets": "anabranch.secrets.secret_commands:family",
        "variables": "anabranch.variables.variable_commands:family",
        "sources": "anabranch.queries.saved.source_commands:family",
        "queries": "anabranch.queries.saved.query_commands:family",
        "schedules": "anabranch.triggers.schedules.schedule_commands:family",
        "topics": "anabranch.triggers.topics.topic_commands:family",
        "keys": "anabranch.keys.key_commands:family",
        "audit": "anabranch.audit.audit_commands:audit",
        "dead-letters": "anabranch.dead_letters.dead_letter_commands:dead_letters",
        "backup": "anabranch.backups.backup_commands:backup",
        "restore-check": "anabranch.backups.backup_commands:restore_check",
        "purge": "anabranch.cli.commands.purge_command:purge",
        "openapi": "anabranch.cli.commands.openapi_command:openapi",
        "schema": "anabranch.cli.commands.schema_command:schema",
        "docs": "anabranch.cli.commands.docs_command:docs",
        "doctor": "anabranch.cli.commands.doctor_command:doctor",
        "version": "anabranch.cli.commands.version_command:version",
    }
)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and leave with its exit code: 0 done, 1 failed, 2 to be corrected, 130 interrupted."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    _log_to_standard_error()
    with answers_apart() if _prints_a_document(arguments) else nullcontext():
        code = _exit_code_of(arguments)
    sys.exit(code)


def _prints_a_document(arguments: Sequence[str]) -> bool:
    return "--json" in arguments or tuple(arguments[:2]) in _EXPORTS or tuple(arguments[:1]) in _DESCRIPTIONS


def _exit_code_of(arguments: Sequence[str]) -> int:
    as_json = "--json" in arguments
    try:
        code = application.main(args=list(arguments), prog_name="anabranch", standalone_mode=False)
        flush_answers()
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
        drop_answers()
        return EXIT_FAILED
    except Exception as fault:  # noqa: BLE001  # the last border: everything else ends here, in one line
        print_error(_fault(fault), as_json=as_json)
        return EXIT_FAILED


def _usage_error(misuse: TyperException) -> AnabranchError:
    context = getattr(misuse, "ctx", None)
    path = "anabranch" if context is None else context.command_path
    message = misuse.format_message().replace("Value error, ", "")  # of a choice: the words of the parser
    return InvalidRequest(message or "a command is missing", hint=f"`{path} --help` shows what it takes.")


def _fault(fault: Exception) -> AnabranchError:
    with tempfile.NamedTemporaryFile("w", prefix="anabranch-error-", suffix=".txt", delete=False) as report:
        traceback.print_exception(fault, file=report)
    return AnabranchError(
        f"{type(fault).__name__}: {fault}",
        hint=f"This is a defect of anabranch. Please report it with what you did; {report.name} has the details.",
    )


# The logger of handlers, steps and workflow functions.
USER_LOGGER = "anabranch.handlers"


class _OneLine(logging.Handler):
    """Logs warnings as single lines to the current standard error, which a live display replaces."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == USER_LOGGER:
            return  # the console writes it, as JSON
        reason = (
            f" ({record.exc_info[0].__name__}: {record.exc_info[1]})" if record.exc_info and record.exc_info[0] else ""
        )
        instance = getattr(record, "instance_id", None)
        run = f" [run {instance}]" if instance else ""
        sys.stderr.write(shown(f"{record.levelname.lower()}: {record.getMessage()}{reason}{run}") + "\n")


def _log_to_standard_error() -> None:
    logger = logging.getLogger("anabranch")
    if not any(isinstance(handler, _OneLine) for handler in logger.handlers):
        logger.addHandler(_OneLine(logging.WARNING))
        logger.propagate = False
