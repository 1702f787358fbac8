"""`anabranch topics`: workflows that are started by messages: subscribe, list, unsubscribe, publish."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.options import (
    CLI_ACTOR,
    DatabaseOptions,
    WorkflowName,
    read_value,
)
from anabranch.cli.output import counted, print_answer, print_document, print_line, print_list
from anabranch.cli.session import open_session
from anabranch.deferred import deferred

if TYPE_CHECKING:
    from anabranch.triggers.topics import topic_service
else:
    topic_service = deferred("anabranch.triggers.topics.topic_service")

family = typer.Typer(help="Topics: subscribe, list, unsubscribe, publish.", no_args_is_help=True)

Pattern = Annotated[
    str, typer.Argument(metavar="PATTERN", help="Segments with dots; * is one segment, # any number of them.")
]


@family.command("subscribe")
def subscribe(
    pattern: Pattern,
    workflow: WorkflowName,
    *,
    at: DatabaseOptions,
) -> None:
    """Start a workflow for each message on the topics that match the pattern."""
    session = open_session(at)
    document = {"type": "workflow", "name": workflow}
    subscription, created = session.ask_services(
        lambda services: services.topics.subscribe(pattern, document, tenant_id=session.tenant, actor=CLI_ACTOR)
    )
    if at.as_json:
        print_document(topic_service.subscription_as_json(subscription))
    else:
        already = "" if created else ", as it was already"
        print_line(f"{workflow} is subscribed to {pattern}{already}: {subscription.subscription_id}")


@family.command("list")
def list_subscriptions(*, at: DatabaseOptions) -> None:
    """Patterns and the workflows that they start."""
    session = open_session(at)
    saved = session.ask_services(lambda services: services.topics.list_subscriptions(tenant_id=session.tenant))
    documents = [topic_service.subscription_as_json(subscription) for subscription in saved]
    print_list(documents, ("pattern", "name", "createdAt", "subscriptionID"), as_json=at.as_json)


@family.command("unsubscribe")
def unsubscribe(
    subscription: Annotated[str, typer.Argument(metavar="SUBSCRIPTION_ID", help="The subscription.")],
    *,
    at: DatabaseOptions,
) -> None:
    """Remove a subscription; the runs that it has started go on."""
    session = open_session(at)
    session.ask_services(
        lambda services: services.topics.unsubscribe(subscription, tenant_id=session.tenant, actor=CLI_ACTOR)
    )
    print_answer(
        {"subscriptionID": subscription, "deleted": True}, f"subscription {subscription} is deleted", as_json=at.as_json
    )


@family.command("publish")
def publish(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Segments with dots between.")],
    payload: Annotated[
        str | None, typer.Argument(metavar="JSON|@FILE", help="The input of the runs; @- reads standard input.")
    ] = None,
    *,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="The same key again starts nothing new.")
    ] = None,
    at: DatabaseOptions,
) -> None:
    """Start a run for each subscription that matches the topic; workers advance them."""
    session = open_session(at)
    value = read_value(payload, what="the message", default=None)
    message = session.ask_services(
        lambda services: services.topics.publish(topic, value, tenant_id=session.tenant, key=key)
    )
    answer = topic_service.message_as_json(message)
    if at.as_json:
        print_document(answer)
        return
    print_line(f"message {message.message_id} has started {counted(len(answer['runs']), 'run')}")
    for run in answer["runs"]:
        print_line(f"  {run}")
    for error in answer["errors"]:
        print_line(f"  {error['name']} cannot start: {error['code']}: {error['message']}")
