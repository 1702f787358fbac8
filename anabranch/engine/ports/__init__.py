"""Interfaces of the engine to the outside, and the small frozen types that they exchange."""

from __future__ import annotations

from anabranch.engine.ports.process_ports import CallbackSigner, ChangeHints, ChangeSubscriber, Clock, Gate, Observer
from anabranch.engine.ports.store_port import Store
from anabranch.engine.ports.store_records import (
    CLAIM_WEIGHT_MAX,
    NO_ACTIVATIONS,
    NO_OUTPUTS,
    WHOLE_LOG_WEIGHT_MAX,
    ActivationPage,
    ClaimRequest,
    Epoch,
    ExternalResult,
    FamilyReopening,
    InstanceRow,
    Loaded,
    NewVersion,
    OpenRuns,
    OutputsRead,
    Pause,
    Position,
    Reopening,
    RunReading,
    TenantRooms,
    WorkerCode,
    WorkerReport,
    WorkflowEntry,
    WorkflowVersion,
)
from anabranch.engine.rules.drawn.drawn_state import InstanceHead
from anabranch.engine.rules.transitions import Outcome, Transition

__all__ = [
    "CLAIM_WEIGHT_MAX",
    "NO_ACTIVATIONS",
    "NO_OUTPUTS",
    "WHOLE_LOG_WEIGHT_MAX",
    "ActivationPage",
    "CallbackSigner",
    "ChangeHints",
    "ChangeSubscriber",
    "ClaimRequest",
    "Clock",
    "Epoch",
    "ExternalResult",
    "FamilyReopening",
    "Gate",
    "InstanceHead",
    "InstanceRow",
    "Loaded",
    "NewVersion",
    "Observer",
    "OpenRuns",
    "Outcome",
    "OutputsRead",
    "Pause",
    "Position",
    "Reopening",
    "RunReading",
    "Store",
    "TenantRooms",
    "Transition",
    "WorkerCode",
    "WorkerReport",
    "WorkflowEntry",
    "WorkflowVersion",
]
