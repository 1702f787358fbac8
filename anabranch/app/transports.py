"""Transports: the parts of a process that use a broker, the sender of jobs in a worker, and the executor of jobs.

Used by `composition`. The client of RabbitMQ is an extra, and imported only where a broker is configured.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from secrets import token_hex
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from anabranch.deferred import deferred
from anabranch.durable.step_functions import StepFunctionHandler
from anabranch.egress import AllowList, Guard, GuardedClient
from anabranch.engine.console.console_rows import LEVELS
from anabranch.errors import SettingsError
from anabranch.handlers import Services
from anabranch.handlers.registry import load_types
from anabranch.handlers.sandbox import Sandbox
from anabranch.handlers.spec import NodeTypeRegistry
from anabranch.settings import Settings

if TYPE_CHECKING:
    from anabranch.dead_letters.dead_letters import DeadLetterRows
    from anabranch.secrets.job_seals import JobSeals
    from anabranch.transport import job_configs, job_executor, job_parts, job_sender, server_values
    from anabranch.transport.job_executor import JobExecutor, JobValues
    from anabranch.transport.job_sender import JobSender
    from anabranch.transport.transport_ports import Transport
else:
    job_configs = deferred("anabranch.transport.job_configs")
    job_executor = deferred("anabranch.transport.job_executor")
    job_sender = deferred("anabranch.transport.job_sender")
    server_values = deferred("anabranch.transport.server_values")

_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})

_RABBITMQ = "anabranch.transport.rabbitmq_transport"


def sender_of_jobs(
    settings: Settings,
    node_types: NodeTypeRegistry,
    *,
    seals: JobSeals,
    stored: job_parts.StoredReferences,
    letters: DeadLetterRows,
) -> JobSender | None:
    """The sender of jobs to other pools, if there is a broker. Raises SettingsError."""
    if settings.broker_url is None:
        return None
    name = f"worker-{token_hex(8)}"
    return job_sender.JobSender(
        transport=_transport(settings, name),
        resolver=job_configs.ConfigResolver(node_types, seals),
        stored=stored,
        letters=letters,
        pools=settings.pools,
        name=name,
    )


@asynccontextmanager
async def open_executor(settings: Settings, modules: Sequence[str]) -> AsyncIterator[JobExecutor]:
    """An executor of the broker's jobs, which needs no database; it finds functions of steps in these modules.

    Raises SettingsError.
    """
    transport = _transport(settings, f"executor-{token_hex(8)}")
    guard = Guard(AllowList.parse(settings.egress_allow))
    client = GuardedClient(guard)
    sandbox = Sandbox(fetcher=client, unsafe=settings.sandbox_unsafe)
    try:
        node_types = load_types(Services(http=client, sandbox=sandbox))
        yield job_executor.JobExecutor(
            transport=transport,
            handlers=job_configs.ResolvedTypes(node_types, StepFunctionHandler(modules)),
            values=_values(settings),
            pools=settings.pools,
            concurrency=settings.concurrency,
            level=LEVELS[settings.log_level],
        )
    finally:
        await sandbox.stop()
        guard.close()


def _transport(settings: Settings, name: str) -> Transport:
    url = settings.broker_url
    if url is None:
        raise SettingsError("there is no broker", hint="Set ANABRANCH_BROKER_URL to amqp://user:password@host/vhost.")
    try:
        rabbitmq = import_module(_RABBITMQ)
    except ModuleNotFoundError as absent:
        if absent.name is None or absent.name.startswith("anabranch"):
            raise
        message = "ANABRANCH_BROKER_URL is set, and the client of RabbitMQ is not installed"
        raise SettingsError(message, hint="pip install 'anabranch[rabbitmq]'") from None
    transport: Transport = rabbitmq.RabbitTransport(url.get_secret_value(), name=name)
    return transport


def _values(settings: Settings) -> JobValues:
    """The client of secrets and large values. Raises SettingsError if they would cross a network in the clear."""
    url, key = settings.url, settings.token
    if url is None or key is None:
        return server_values.NoServer()
    address = urlsplit(url)
    if address.scheme != "https" and address.hostname not in _THIS_MACHINE:
        raise SettingsError(
            f"an executor fetches secrets from {url}: over a network only by https",
            hint="Set ANABRANCH_URL to the https address of the server, or of the proxy before it.",
        )
    return server_values.ServerValues(url, key.get_secret_value())
