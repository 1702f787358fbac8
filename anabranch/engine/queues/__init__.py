"""Transports inside one process: jobs, results and due times. All are hints; the log decides."""

from anabranch.engine.queues.delays import DelayQueue
from anabranch.engine.queues.in_process import ResultQueue, TaskQueue
from anabranch.engine.queues.jobs import NodeJob
from anabranch.engine.queues.slots import Slot, present_slot

__all__ = ["DelayQueue", "NodeJob", "ResultQueue", "Slot", "TaskQueue", "present_slot"]
