"""Every pair of phase and operation."""

import pytest
from msgspec.structs import asdict
from support.reference import SECTIONS
from support.samples.crafted import keys_of_a_root, made
from support.samples.deployment import NOW, manifest, new_process

from keyhouse.base.errors import (
    ForbiddenError,
    KeyhouseError,
    NotFoundError,
    UnauthenticatedError,
    WrongPhaseError,
)
from keyhouse.coordinator.core.commands import (
    AcknowledgeUpdate,
    CancelUpdate,
    Command,
    InitiateUpdate,
    RecordActivations,
    SetCounter,
    UpdatePackages,
    UploadSecrets,
)
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.decide import decide
from keyhouse.coordinator.core.phases import (
    TABLE,
    Operation,
    Phase,
    PhaseOutcome,
    phase_of,
    require,
)
from keyhouse.coordinator.core.state import AcceptingManifest, Recovering
from keyhouse.coordinator.prepare import prepare_manifest

# The table of the interface ("States"), written a second time, row by row.
EXPECTED = {
    # operation: recovery, accepting manifest, running
    Operation.READ_STATUS: "yes yes yes",
    Operation.READ_QUOTE: "yes yes yes",
    Operation.READ_MANIFEST: "404 404 yes",
    Operation.SET_MANIFEST: "yes yes 409",
    Operation.READ_RECOVERY_KEY: "yes 409 409",
    Operation.RECOVER: "yes 409 409",
    Operation.READ_RECOVERY_SECRETS: "401 401 yes",
    Operation.READ_LOG: "409 409 yes",
    Operation.READ_PUBLIC_LOG: "409 409 yes",
    Operation.UPDATE: "401 401 yes",
    Operation.READ_PENDING: "404 404 yes",
    Operation.ACKNOWLEDGE: "401 401 yes",
    Operation.CANCEL: "401 401 yes",
    Operation.READ_SECRETS: "401 401 yes",
    Operation.WRITE_SECRETS: "401 401 yes",
    Operation.SIGN_QUOTE: "403 403 yes",
    Operation.COUNT: "403 403 yes",
    Operation.ACTIVATE: "409 409 yes",
    Operation.RENEW: "409 409 yes",
    Operation.REVOKE: "401 401 yes",
    Operation.READ_ACTIVATIONS: "401 401 yes",
    Operation.READ_REFUSED: "401 401 yes",
    Operation.READ_COUNTERS: "401 401 yes",
}

ERRORS: dict[str, type[KeyhouseError]] = {
    "409": WrongPhaseError,
    "404": NotFoundError,
    "401": UnauthenticatedError,
    "403": ForbiddenError,
}


def test_the_table_has_every_operation_and_no_other() -> None:
    assert set(TABLE) == set(Operation) == set(EXPECTED)


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("operation", Operation)
def test_each_pair_is_allowed_or_refused_as_the_interface_says(
    operation: Operation, phase: Phase
) -> None:
    expected = EXPECTED[operation].split()[phase - 1]
    if expected == PhaseOutcome.YES:
        require(operation, phase)
        return
    with pytest.raises(ERRORS[expected]) as refusal:
        require(operation, phase)
    assert f"the coordinator {phase.words}" in str(refusal.value)


def test_a_wrong_phase_says_when_it_would_be_right() -> None:
    with pytest.raises(WrongPhaseError) as refusal:
        require(Operation.SET_MANIFEST, Phase.RUNNING)
    assert str(refusal.value) == (
        "the coordinator is running; setting the manifest is possible only "
        "while it is in recovery mode or while it is waiting for its first manifest"
        " (change the manifest in force with keyhouse manifest update apply)"
    )


def test_the_documentation_is_the_table() -> None:
    lines = SECTIONS["phases"]().splitlines()
    assert len(lines) == 2 + len(Operation)
    assert "| setting the manifest | yes | yes | 409 |" in lines


def test_each_state_has_its_phase() -> None:
    keys = keys_of_a_root()
    assert phase_of(AcceptingManifest(keys)) is Phase.ACCEPTING_MANIFEST
    assert phase_of(Recovering(keys, "sealed elsewhere")) is Phase.RECOVERY
    assert phase_of(made(manifest(1)).running) is Phase.RUNNING


def test_second_manifest_is_refused_although_the_root_is_the_same() -> None:
    """The test bypasses ``prepare_manifest``: the decision itself must refuse."""
    running = made(manifest(1)).running
    command = prepare_manifest(AcceptingManifest(running.keys), manifest(2), now=NOW)
    with pytest.raises(WrongPhaseError):
        decide(running, command, CONTEXT)


CONTEXT = Context(now=NOW, **asdict(new_process()))
KEYS = keys_of_a_root()
COMMANDS: list[tuple[Command, type[KeyhouseError]]] = [
    (UploadSecrets(b"", b"", None, ()), UnauthenticatedError),
    (UpdatePackages(b"", b"", b"", {}, KEYS, {}), UnauthenticatedError),
    (InitiateUpdate(b"", b"", b"", None, (), ()), UnauthenticatedError),
    (AcknowledgeUpdate(b"", b"", None), UnauthenticatedError),
    (CancelUpdate(None, None), UnauthenticatedError),
    (RecordActivations(()), WrongPhaseError),
    (SetCounter(b"", ("web", ""), "hits", 1), ForbiddenError),
]


@pytest.mark.parametrize(("command", "refusal"), COMMANDS)
def test_command_for_a_running_coordinator_is_refused_before(
    command: Command, refusal: type[KeyhouseError]
) -> None:
    for state in (AcceptingManifest(KEYS), Recovering(KEYS, "sealed elsewhere")):
        with pytest.raises(refusal):
            decide(state, command, CONTEXT)
