"""`anabranch secrets`: store, list and delete the secrets that nodes may send. Values never come back."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.options import CLI_ACTOR, DatabaseOptions
from anabranch.cli.output import print_answer, print_list
from anabranch.cli.session import open_session
from anabranch.deferred import deferred
from anabranch.errors import InvalidRequest

if TYPE_CHECKING:
    from anabranch.secrets import secret_store
else:
    secret_store = deferred("anabranch.secrets.secret_store")

family = typer.Typer(help="Secrets: set, list, delete. Nodes read them as {{secret.NAME}}.", no_args_is_help=True)

# More than the largest value: what comes through a pipe by mistake is not read to its end.
STDIN_BYTES_MAX = 1_048_576

SecretName = Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits and `_`, no digit first.")]


@family.command("set")
def set_secret(
    name: SecretName,
    *,
    value: Annotated[
        str | None,
        typer.Option("--value", metavar="TEXT", help="The value; without it, it is read from standard input."),
    ] = None,
    at: DatabaseOptions,
) -> None:
    """Store a secret, replacing the previous value. A value on the command line stays in the shell's history: pipe it
    in."""
    text = _typed(name) if value is None else value
    secret_store.check_secret(name, text)  # before a key is made for nothing
    session = open_session(at, creates=True)
    entry = session.ask(
        lambda app: app.open_secrets(makes_key=True),
        lambda store: store.set(tenant_id=session.tenant, name=name, value=text, actor=CLI_ACTOR),
    )
    print_answer(
        secret_store.secret_as_json(entry),
        f"secret {entry.name} is stored, version {entry.version}",
        as_json=at.as_json,
    )


@family.command("list")
def list_secrets(*, at: DatabaseOptions) -> None:
    """Names and times; no values."""
    session = open_session(at)
    entries = session.ask(
        lambda app: app.open_secrets(makes_key=False), lambda store: store.list(tenant_id=session.tenant)
    )
    documents = [secret_store.secret_as_json(entry) for entry in entries]
    print_list(documents, ("name", "version", "createdAt", "updatedAt"), as_json=at.as_json)


@family.command("delete")
def delete_secret(name: SecretName, *, at: DatabaseOptions) -> None:
    """Remove a secret; nodes that read it fail with SECRET_UNKNOWN."""
    session = open_session(at)
    session.ask(
        lambda app: app.open_secrets(makes_key=False),
        lambda store: store.delete(tenant_id=session.tenant, name=name, actor=CLI_ACTOR),
    )
    print_answer({"name": name, "deleted": True}, f"secret {name} is deleted", as_json=at.as_json)


def _typed(name: str) -> str:
    """The value from a terminal, unseen, or from a pipe, without the line end that `echo` adds."""
    if sys.stdin.isatty():
        return str(typer.prompt(f"value of {name}", hide_input=True))
    content = sys.stdin.buffer.read(STDIN_BYTES_MAX + 1)
    try:
        return content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise InvalidRequest("the value on standard input is not UTF-8 text", hint="Encode bytes as base64.") from None
