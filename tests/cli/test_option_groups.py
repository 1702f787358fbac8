"""A dataclass of options in a command's signature stands for its options, one by one."""

from __future__ import annotations

import inspect

from anabranch.cli.lazy_commands import with_options
from anabranch.cli.options import DatabaseOptions


def read(name: str, *, after: int = 0, at: DatabaseOptions) -> object:
    """Give back what it was called with."""
    return name, after, at


def test_a_group_is_replaced_by_its_options_in_their_order() -> None:
    parameters = inspect.signature(with_options(read)).parameters

    assert list(parameters) == ["name", "after", "database_url", "tenant", "as_json"]
    assert (parameters["tenant"].default, parameters["as_json"].default) == ("default", False)


def test_the_command_is_called_with_the_group() -> None:
    called = with_options(read)(name="a", after=3, database_url=None, tenant="acme", as_json=True)

    assert called == ("a", 3, DatabaseOptions(None, "acme", as_json=True))


def test_a_command_without_a_group_stays_as_it_is() -> None:
    def plain(name: str) -> str:
        return name

    assert with_options(plain) is plain
