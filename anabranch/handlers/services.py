"""What node types need of the rest of anabranch, as one bundle that the app puts together.

Called by `app`, which hands it to `load_types`. Where nothing runs (validating, printing node
types) everything in it refuses to work, with a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from anabranch.handlers.data_query import NoQueries, QueryRunner


@dataclass(frozen=True, slots=True)
class Services:
    """One field for each service; by default it is not there."""

    queries: QueryRunner = field(default_factory=NoQueries)


NO_SERVICES = Services()
