"""The trusted state: rules and preparation of its changes, and the single writer."""

from typing import TYPE_CHECKING

from keyhouse.base.lazy_imports import on_demand
from keyhouse.coordinator.activation import (
    ActivationParameters,
    ActivationRequest,
    Joining,
    parameters,
)
from keyhouse.coordinator.certificate_expiry import user_expiry, warn_of_expiry
from keyhouse.coordinator.core.approvals import (
    ApprovalOutdatedError,
    ApprovalRefusedError,
    Approved,
    read_approval,
)
from keyhouse.coordinator.core.commands import (
    AcknowledgeUpdate,
    Activate,
    CancelUpdate,
    CannotBeAppliedError,
    Command,
    InitiateUpdate,
    SeeCollateral,
    SetCounter,
    SetManifest,
    StaleError,
    UpdatePackages,
    UploadSecrets,
)
from keyhouse.coordinator.core.context import FirstManifestRule, Process
from keyhouse.coordinator.core.decide import require_below_limit
from keyhouse.coordinator.core.decide_update import require_pending
from keyhouse.coordinator.core.events import Activated
from keyhouse.coordinator.core.phases import OPEN_WHILE_HELD, Operation, Phase, phase_of, require
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import (
    AcceptingManifest,
    PublicLog,
    Recovering,
    Running,
    State,
    counter_of,
)
from keyhouse.coordinator.core.update_log import UpdateLogView
from keyhouse.coordinator.engine.clock import CLOCK_EVERY, HostClock
from keyhouse.coordinator.engine.current import View
from keyhouse.coordinator.engine.engine import Engine, until_current
from keyhouse.coordinator.engine.log_signing import signed_checkpoint
from keyhouse.coordinator.engine.open_engine import (
    NewDeployment,
    open_engine,
    require_clock_of_fresh,
)
from keyhouse.coordinator.engine.records import rebuild
from keyhouse.coordinator.engine.recover import MakeReady, Recovery
from keyhouse.coordinator.engine.start_proofs import MakeQuote, StartQuote
from keyhouse.coordinator.origin.checks import Origin

# These modules check a manifest and prepare a change. They are a large part of the code, and a
# start needs none of them. So they are imported at their first use, or a second after the start.
# Only replicas need the read gate.
if TYPE_CHECKING:
    from keyhouse.coordinator.engine.read_gate import ReadGate
    from keyhouse.coordinator.full_check import check_fully
    from keyhouse.coordinator.prepare import prepare_manifest, prepare_upload
    from keyhouse.coordinator.update.prepare import (
        SentUpdate,
        prepare_acknowledgement,
        prepare_cancellation,
        prepare_plan,
        prepare_update,
    )
else:
    __getattr__, __dir__, __all__ = on_demand(
        __name__,
        {
            "keyhouse.coordinator.engine.read_gate": "ReadGate",
            "keyhouse.coordinator.full_check": "check_fully",
            "keyhouse.coordinator.prepare": "prepare_manifest prepare_upload",
            "keyhouse.coordinator.update.prepare": (
                "SentUpdate prepare_acknowledgement prepare_cancellation prepare_plan "
                "prepare_update"
            ),
        },
    )
