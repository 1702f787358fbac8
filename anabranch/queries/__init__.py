"""Data sources and saved queries: SQL of people, run on databases of people, within limits.

`QueryEngine` runs a saved query, `SourceUrls` keeps the URLs of sources, `ports` says what both need.
"""

from anabranch.queries.engine import QueryEngine
from anabranch.queries.sources import Places
from anabranch.queries.urls import SourceUrls

__all__ = ["Places", "QueryEngine", "SourceUrls"]
