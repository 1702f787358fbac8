"""What campaigns are made of: the proxy that drops, the list of campaigns, and what is skipped by name."""

from __future__ import annotations

import asyncio

import pytest

from anabranch.triggers.schedules.scheduler import occurrence_key
from tests.chaos import __main__ as chaos
from tests.chaos.leading import due_at_of
from tests.chaos.proxy import Proxy
from tests.chaos.scenes import DIRECTIONS
from tests.tools import ToolMissing


class Echo:
    """A server that says what it hears, and remembers it."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            self.heard.append(line.decode().strip())
            writer.write(line)
        writer.close()


class Line:
    """A connection to it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def say(self, word: str) -> None:
        self._writer.write(f"{word}\n".encode())

    async def echo(self, word: str) -> str:
        self.say(word)
        return (await self._reader.readline()).decode().strip()

    @property
    def unread(self) -> bytes:
        """What has come and was not read."""
        return bytes(self._reader._buffer)  # type: ignore[attr-defined]

    def close(self) -> None:
        self._writer.close()


@pytest.mark.parametrize("direction", DIRECTIONS)
async def test_what_is_sent_while_a_direction_drops_is_lost_and_the_connection_stays_half_open(direction: str) -> None:
    requests, answers = DIRECTIONS[direction]
    echo = Echo()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    async with Proxy(server.sockets[0].getsockname()[1], seed=1) as proxy:

        async def connected() -> Line:
            return Line(*await asyncio.open_connection("127.0.0.1", proxy.port))

        line = await connected()
        assert await line.echo("before") == "before"
        with proxy.dropping(requests=requests, answers=answers):
            line.say("meanwhile")
            if not requests:
                while "meanwhile" not in echo.heard:  # noqa: ASYNC110 -- of another connection
                    await asyncio.sleep(0)
        line.say("later")
        other = await connected()
        assert await other.echo("after") == "after"
        assert line.unread == b"", "no answer comes any more"
        line.close()
        other.close()
        if requests:
            assert echo.heard == ["before", "after"]
    server.close()


def test_every_campaign_has_a_size_for_a_day_and_one_for_a_night() -> None:
    assert {size: set(plans) for size, plans in chaos.SIZES.items()} == {
        "ci": set(chaos.SCENES),
        "soak": set(chaos.SCENES),
    }


def test_campaigns_that_need_a_broker_are_skipped_by_name_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> None:
        raise ToolMissing("no RabbitMQ")

    monkeypatch.setattr(chaos, "rabbitmq", missing)
    stores, skipped = chaos.possible(["sqlite", "pools", "frozen"])
    assert stores == ["sqlite"]
    assert skipped == {"pools": {"skipped": "no RabbitMQ"}, "frozen": {"skipped": "no RabbitMQ"}}
    assert capsys.readouterr().out == "pools: skipped: no RabbitMQ\nfrozen: skipped: no RabbitMQ\n"


def test_the_time_of_an_occurrence_is_in_its_key() -> None:
    assert due_at_of(occurrence_key("0198a1b2-0000-7000-8000-000000000000", 1_764_000_000_000)) == 1_764_000_000_000
