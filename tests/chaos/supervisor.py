"""One worker that is started again whenever it has died: `python -m tests.chaos.supervisor DATABASE_URL LEASE_MS`.

Everything is imported once, and each worker is a fork: so the next one is there within a tenth of a second. Prints a
line for each that has died.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import traceback

from anabranch.engine.rules.shared import blame
from tests.chaos.worker import work

CRASH_DELAYS_MS = "ANABRANCH_TEST_CRASH_DELAYS_MS"
"""How long a run that has crashed alone is kept back after each crash: `1000,10000,100000`."""

DIED = "died"


def main(url: str, lease_ms: int) -> None:
    """Start workers one after the other, until this process is killed or nobody reads what it prints."""
    if CRASH_DELAYS_MS in os.environ:
        blame.CRASH_DELAYS_MS = tuple(int(each) for each in os.environ[CRASH_DELAYS_MS].split(","))
    while True:
        worker = os.fork()
        if not worker:
            try:
                asyncio.run(work(url, lease_ms))
            except BaseException:  # noqa: BLE001 -- it may not go on as its supervisor, whatever it is
                traceback.print_exc()
            finally:
                os._exit(1)  # whatever this process has inherited is its supervisor's
        os.waitpid(worker, 0)
        print(DIED, flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    main(sys.argv[1], int(sys.argv[2]))
