"""`anabranch keys`: create, list and revoke API keys, in the database and without a server."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.cli.options import CLI_ACTOR, DEFAULT_TENANT, AsJson, DatabaseOptions, DatabaseUrl
from anabranch.cli.output import print_answer, print_document, print_line, print_list, print_note
from anabranch.cli.session import open_session
from anabranch.errors import InvalidRequest
from anabranch.keys.access import ALL_TENANTS, Role
from anabranch.keys.api_keys import key_as_json

family = typer.Typer(
    help="API keys: create, list, revoke. They give programs access by REST and socket.", no_args_is_help=True
)

AnyTenant = Annotated[
    str | None, typer.Option("--tenant", metavar="TENANT", help="The tenant; all tenants if not given.")
]


@family.command("create")
def create(
    *,
    role: Annotated[
        Role,
        typer.Option(
            "--role",
            help="viewer reads; operator also starts, cancels and signals; editor also writes workflows and queries;"
            " admin also keys, sources and secrets; executor only fetches what jobs refer to.",
        ),
    ] = Role.EDITOR,
    pools: Annotated[
        str | None,
        typer.Option(
            "--pools", metavar="NAMES", help="Of an executor: its pools, separated by commas; `*`: every one."
        ),
    ] = None,
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="Of an executor: for the jobs of every tenant.")
    ] = False,
    at: DatabaseOptions,
) -> None:
    """Create a key and print it once: only its hash is stored."""
    if all_tenants and role is not Role.EXECUTOR:
        raise InvalidRequest("--all-tenants is for keys of the role executor")
    session = open_session(at, creates=True)
    tenant = ALL_TENANTS if all_tenants else session.tenant
    named = [name.strip() for name in (pools or "").split(",") if name.strip()]
    created = session.ask(
        lambda app: app.open_access(),
        lambda access: access.create_key(tenant_id=tenant, role=role, actor=CLI_ACTOR, pools=named),
    )
    if at.as_json:
        print_document(
            {
                "key": created.key,
                "keyID": created.key_id,
                "tenant": created.tenant_id or "*",
                "role": created.role.value,
            }
        )
        return
    print_line(created.key)
    of = "all tenants" if all_tenants else f"tenant {created.tenant_id}"
    print_note(f"{created.key_id}: {created.role.value} of {of}; the key is not shown again")


@family.command("list")
def list_keys(*, database_url: DatabaseUrl = None, tenant: AnyTenant = None, as_json: AsJson = False) -> None:
    """List keys with role and last use, including revoked ones."""
    session = open_session(DatabaseOptions(database_url, tenant or DEFAULT_TENANT))
    found = session.ask(lambda app: app.open_access(), lambda access: access.list_keys(tenant))
    documents = [key_as_json(key) for key in found]
    print_list(
        documents,
        ("keyID", "tenant", "role", "pools", "createdAt", "lastUsedAt", "expiresAt", "revokedAt"),
        as_json=as_json,
    )


@family.command("revoke")
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID", help="The id of a key, as `keys list` shows it.")],
    *,
    database_url: DatabaseUrl = None,
    tenant: AnyTenant = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a key; it is rejected everywhere within two seconds."""
    session = open_session(DatabaseOptions(database_url, tenant or DEFAULT_TENANT))
    revoked = session.ask(
        lambda app: app.open_access(), lambda access: access.revoke_key(key_id, tenant_id=tenant, actor=CLI_ACTOR)
    )
    print_answer(
        key_as_json(revoked), f"key {revoked.key_id} of tenant {revoked.tenant_id} is revoked", as_json=as_json
    )
