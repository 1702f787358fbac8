"""`anabranch variables`: values that workflows read by name, of the tenant or kept by a workflow's runs."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from anabranch.cli.options import CLI_ACTOR, DatabaseOptions, read_value
from anabranch.cli.output import print_answer, print_list
from anabranch.cli.session import CommandSession, open_session
from anabranch.errors import InvalidRequest
from anabranch.variables.saved_variables import VARIABLES_MAX, Owner, no_variable, owner_of_workflow, variable_as_json

family = typer.Typer(
    help="Variables: set, get, list, delete. Nodes of the type readVariables read them.", no_args_is_help=True
)

VariableName = Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits, `_`, `.`, `:`, `-`.")]
OfWorkflow = Annotated[
    str | None, typer.Option("--workflow", metavar="NAME", help="Those that this workflow's runs keep.")
]


@family.command("set")
def set_variable(
    name: VariableName,
    *,
    value: Annotated[str | None, typer.Option("--value", metavar="TEXT", help="The value, as text.")] = None,
    value_json: Annotated[
        str | None, typer.Option("--value-json", metavar="JSON|@FILE", help="The value, as JSON.")
    ] = None,
    workflow: OfWorkflow = None,
    at: DatabaseOptions,
) -> None:
    """Set a variable. Everybody who may read workflows can read it: passwords and tokens are secrets."""
    if (value is None) == (value_json is None):
        raise InvalidRequest("a variable is set with --value or --value-json")
    given: Any = value if value_json is None else read_value(value_json, what="--value-json", default=None)
    if given is None:
        raise InvalidRequest("the value of a variable is not null", hint="Delete the variable.")
    session = open_session(at, creates=True)
    owner = _owner(session, workflow)
    written = session.ask_services(
        lambda services: services.variables.set_variable(owner, name, given, actor=CLI_ACTOR)
    )
    print_answer(variable_as_json(written), f"variable {name} is set, version {written.version}", as_json=at.as_json)


@family.command("get")
def get_variable(name: VariableName, *, workflow: OfWorkflow = None, at: DatabaseOptions) -> None:
    """Its value, as JSON, whatever its size."""
    session = open_session(at)
    owner = _owner(session, workflow)
    found = session.ask_services(lambda services: services.variables.get_variable(owner, name))
    if found is None:
        raise no_variable(name)
    print_answer(variable_as_json(found), json.dumps(found.value, ensure_ascii=False), as_json=at.as_json)


@family.command("list")
def list_variables(*, workflow: OfWorkflow = None, at: DatabaseOptions) -> None:
    """Names, values up to 4 kB, sizes and times."""
    session = open_session(at)
    owner = _owner(session, workflow)
    found = session.ask_services(lambda services: services.variables.list_variables(owner, limit=VARIABLES_MAX))
    columns = ("name", "value", "size", "version", "updatedAt")
    print_list([variable_as_json(each) for each in found], columns, as_json=at.as_json)


@family.command("delete")
def delete_variable(name: VariableName, *, workflow: OfWorkflow = None, at: DatabaseOptions) -> None:
    """Remove a variable; nodes find nothing under its name."""
    session = open_session(at)
    owner = _owner(session, workflow)
    if not session.ask_services(lambda services: services.variables.delete_variable(owner, name, actor=CLI_ACTOR)):
        raise no_variable(name)
    print_answer({"name": name, "deleted": True}, f"variable {name} is deleted", as_json=at.as_json)


def _owner(session: CommandSession, workflow: str | None) -> Owner:
    if workflow is None:
        return Owner(session.tenant)
    found = session.ask_services(
        lambda services: services.workflows.get_workflow_by_id(workflow, tenant_id=session.tenant)
    )
    return owner_of_workflow(found)
