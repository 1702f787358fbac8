"""Transports inside one process: jobs and due times. All are hints; the log decides."""

from anabranch.engine.queues.delays import DelayQueue
from anabranch.engine.queues.task_queue import NodeJob, Slot, TaskQueue, present_slot

__all__ = ["DelayQueue", "NodeJob", "Slot", "TaskQueue", "present_slot"]
