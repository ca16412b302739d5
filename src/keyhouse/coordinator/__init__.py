"""The trusted state: what may change it, how it changes, and the one writer."""

from keyhouse.coordinator.activation.parameters import (
    ActivationRequest,
    Joining,
    Parameters,
    parameters,
)
from keyhouse.coordinator.certificate_ends import user_expiry, warn_of_expiry
from keyhouse.coordinator.core.approvals import (
    ApprovalMissingError,
    ApprovalOutdatedError,
    ApprovalRefusedError,
    Approved,
    read_approval,
)
from keyhouse.coordinator.core.audit_trail import AuditView
from keyhouse.coordinator.core.commands import (
    AcknowledgeUpdate,
    Activate,
    CancelUpdate,
    Command,
    InitiateUpdate,
    MakeAnchor,
    SeeCollateral,
    SetCounter,
    SetManifest,
    StaleError,
    UpdatePackages,
    UploadSecrets,
)
from keyhouse.coordinator.core.context import Context, FirstManifestRule
from keyhouse.coordinator.core.decide_activation import require_below_limit
from keyhouse.coordinator.core.events import Activated
from keyhouse.coordinator.core.phases import (
    OPEN_WHILE_HELD,
    TABLE,
    Operation,
    Outcome,
    Phase,
    phase_of,
    require,
)
from keyhouse.coordinator.core.policy import Policy, Recipe, policy_of
from keyhouse.coordinator.core.state import (
    AcceptingManifest,
    Pending,
    PublicLog,
    Recovering,
    Running,
    State,
    counter_of,
)
from keyhouse.coordinator.core.update_log import LogView, UpdateLog
from keyhouse.coordinator.engine.batch import Decision
from keyhouse.coordinator.engine.clock import LOOK_EVERY, Clock, HostClock
from keyhouse.coordinator.engine.counts import EngineCounts
from keyhouse.coordinator.engine.current import Process, View
from keyhouse.coordinator.engine.engine import Engine
from keyhouse.coordinator.engine.log_signing import signed_checkpoint
from keyhouse.coordinator.engine.opening import NewDeployment, open_engine, require_clock_of_fresh
from keyhouse.coordinator.engine.read_gate import ReadGate
from keyhouse.coordinator.engine.records import rebuild
from keyhouse.coordinator.engine.recover import MakeReady, Recovery
from keyhouse.coordinator.engine.recovery_check import RecoveryRefusedError
from keyhouse.coordinator.engine.start_quotes import MakeQuote, StartQuote
from keyhouse.coordinator.full_check import check_fully
from keyhouse.coordinator.lease import Lease
from keyhouse.coordinator.prepare import prepare_manifest, prepare_upload, until_current
from keyhouse.coordinator.update.prepare import (
    CannotBeAppliedError,
    PlanChangedError,
    prepare_acknowledgement,
    prepare_cancellation,
    prepare_plan,
    prepare_update,
)

__all__ = [
    "LOOK_EVERY",
    "OPEN_WHILE_HELD",
    "TABLE",
    "AcceptingManifest",
    "AcknowledgeUpdate",
    "Activate",
    "Activated",
    "ActivationRequest",
    "ApprovalMissingError",
    "ApprovalOutdatedError",
    "ApprovalRefusedError",
    "Approved",
    "AuditView",
    "CancelUpdate",
    "CannotBeAppliedError",
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
    "Lease",
    "LogView",
    "MakeAnchor",
    "MakeQuote",
    "MakeReady",
    "NewDeployment",
    "Operation",
    "Outcome",
    "Parameters",
    "Pending",
    "Phase",
    "PlanChangedError",
    "Policy",
    "Process",
    "PublicLog",
    "ReadGate",
    "Recipe",
    "Recovering",
    "Recovery",
    "RecoveryRefusedError",
    "Running",
    "SeeCollateral",
    "SetCounter",
    "SetManifest",
    "StaleError",
    "StartQuote",
    "State",
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
    "prepare_cancellation",
    "prepare_manifest",
    "prepare_plan",
    "prepare_update",
    "prepare_upload",
    "read_approval",
    "rebuild",
    "require",
    "require_below_limit",
    "require_clock_of_fresh",
    "signed_checkpoint",
    "until_current",
    "user_expiry",
    "warn_of_expiry",
]
