"""Transactions around several statements, on connections that otherwise commit each statement by itself.

Called by the dialects, which say how one begins and what their driver raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection


@contextmanager
def transaction(connection: Connection, begin: str, *, driver_error: type[Exception]) -> Iterator[None]:
    """What is executed within happens as a whole, or, if anything raises, not at all."""
    connection.exec_driver_sql(begin)
    try:
        yield
        connection.exec_driver_sql("COMMIT")
    except BaseException:
        _roll_back(connection, driver_error)
        raise


def _roll_back(connection: Connection, driver_error: type[Exception]) -> None:
    """Undo what was done; a connection that is gone, or cannot even do that, is given up, which undoes it too."""
    if connection.invalidated:
        return
    driver = connection.connection.driver_connection
    assert driver is not None, "a connection that is in use has its driver's"
    try:
        driver.rollback()
    except driver_error:  # what led here is what is to be told
        connection.invalidate()
