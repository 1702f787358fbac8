"""Lengths of time as authors of coded workflows give them. Known to `definition` and `steps`."""

from __future__ import annotations

from datetime import timedelta

Duration = str | int | float | timedelta
"""`"5m"`, `"PT5M"`, a number of milliseconds, or a timedelta; 0 to 5 years."""


def without_timedelta(duration: Duration | None) -> str | int | float | None:
    """The same as JSON can say it, and as `parse_duration` reads it: a timedelta in milliseconds."""
    return duration / timedelta(milliseconds=1) if isinstance(duration, timedelta) else duration
