"""The results that an executor keeps, so that a job that comes again is answered and not executed twice.

Called by `job_executor`.
"""

from __future__ import annotations

from collections import OrderedDict

from anabranch.transport.job_messages import JobReport

# 1,000 jobs that have ended: some minutes of a busy executor. A repetition after that is executed.
KEPT_MAX = 1_000

# 64 MB, or 64 kB of each of them: a result may have 1 MB and more, and a thousand of these do not fit in an executor.
KEPT_BYTES_MAX = 64 * 1_048_576


class KeptResults:
    """The latest ones; the last is kept whatever its size is."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[JobReport, int]] = OrderedDict()
        self._bytes = 0

    def get(self, job_id: str) -> JobReport | None:
        """The result of this job, or None."""
        kept = self._kept.get(job_id)
        return None if kept is None else kept[0]

    def add(self, report: JobReport) -> None:
        """Keep the result of a job, and drop the oldest ones that are too many."""
        if (former := self._kept.pop(report.job_id, None)) is not None:
            self._bytes -= former[1]
        size = len(report.to_json())
        self._kept[report.job_id] = report, size
        self._bytes += size
        while len(self._kept) > KEPT_MAX or (self._bytes > KEPT_BYTES_MAX and len(self._kept) > 1):
            self._bytes -= self._kept.popitem(last=False)[1][1]
