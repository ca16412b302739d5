"""The trusted state: what may change it, how it changes, and the one writer."""

from keyhouse.coordinator.activation import ActivationRequest, Parameters
from keyhouse.coordinator.audit_trail import AuditView
from keyhouse.coordinator.batch import Decision
from keyhouse.coordinator.certificate_ends import user_expiry, warn_of_expiry
from keyhouse.coordinator.clock import LOOK_EVERY, Clock, HostClock
from keyhouse.coordinator.commands import (
    AcknowledgeUpdate,
    Activate,
    CancelUpdate,
    Command,
    Context,
    InitiateUpdate,
    SeeCollateral,
    SetCounter,
    SetManifest,
    Stale,
    UpdatePackages,
    UploadSecrets,
)
from keyhouse.coordinator.counts import EngineCounts, Tally
from keyhouse.coordinator.decide_activation import require_below_limit
from keyhouse.coordinator.engine import Engine, Process
from keyhouse.coordinator.events import Activated
from keyhouse.coordinator.first_manifest import FirstManifestRule
from keyhouse.coordinator.full_check import check_fully
from keyhouse.coordinator.opening import NewDeployment, open_engine, require_clock_of_fresh
from keyhouse.coordinator.parameters import Joining, parameters
from keyhouse.coordinator.phases import TABLE, Operation, Outcome, Phase, phase_of, require
from keyhouse.coordinator.policy import Policy, policy_of
from keyhouse.coordinator.prepare import prepare_manifest, prepare_upload
from keyhouse.coordinator.prepare_plan import PlanChanged, prepare_plan
from keyhouse.coordinator.prepare_update import (
    CannotBeApplied,
    prepare_acknowledgement,
    prepare_update,
)
from keyhouse.coordinator.prepared_again import until_current
from keyhouse.coordinator.rebuild import rebuild
from keyhouse.coordinator.recipe import Recipe
from keyhouse.coordinator.recover import MakeReady, Recovery
from keyhouse.coordinator.recovered import RecoveryRefused
from keyhouse.coordinator.state import (
    AcceptingManifest,
    Pending,
    Recovering,
    Running,
    State,
    counter_of,
)
from keyhouse.coordinator.update_log import LogView, UpdateLog
from keyhouse.coordinator.view import View

__all__ = [
    "LOOK_EVERY",
    "TABLE",
    "AcceptingManifest",
    "AcknowledgeUpdate",
    "Activate",
    "Activated",
    "ActivationRequest",
    "AuditView",
    "CancelUpdate",
    "CannotBeApplied",
    "Clock",
    "Command",
    "Context",
    "Decision",
    "Engine",
    "EngineCounts",
    "FirstManifestRule",
    "HostClock",
    "InitiateUpdate",
    "Joining",
    "LogView",
    "MakeReady",
    "NewDeployment",
    "Operation",
    "Outcome",
    "Parameters",
    "Pending",
    "Phase",
    "PlanChanged",
    "Policy",
    "Process",
    "Recipe",
    "Recovering",
    "Recovery",
    "RecoveryRefused",
    "Running",
    "SeeCollateral",
    "SetCounter",
    "SetManifest",
    "Stale",
    "State",
    "Tally",
    "UpdateLog",
    "UpdatePackages",
    "UploadSecrets",
    "View",
    "check_fully",
    "counter_of",
    "open_engine",
    "parameters",
    "phase_of",
    "policy_of",
    "prepare_acknowledgement",
    "prepare_manifest",
    "prepare_plan",
    "prepare_update",
    "prepare_upload",
    "rebuild",
    "require",
    "require_below_limit",
    "require_clock_of_fresh",
    "until_current",
    "user_expiry",
    "warn_of_expiry",
]
