"""Queues inside one process: jobs and due times. They may be lost; the log decides."""

from anabranch.engine.queues.delays import DelayQueue
from anabranch.engine.queues.task_queue import Job, LocalTaskQueue, Slot, present_slot

__all__ = ["DelayQueue", "Job", "LocalTaskQueue", "Slot", "present_slot"]
