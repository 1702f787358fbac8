"""What starts runs by itself: schedules, by the clock, and topics, by messages.

`occurrences` and `patterns` are pure; `Scheduler` and `Publisher` start runs through the port
`starting.Starter`. Whoever starts a process builds them, and starts and stops them with its engine.
"""

from anabranch.triggers.publisher import Publisher
from anabranch.triggers.scheduler import Scheduler

__all__ = ["Publisher", "Scheduler"]
