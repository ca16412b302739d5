"""A command prepared for a former state is not decided, but prepared again."""

from collections.abc import Callable

import msgspec
import pytest
from support.samples.deployment import NOW, user
from support.samples.plans import Deployment, encoded, raised
from support.samples.updates import Document

from keyhouse.base.errors import ConflictError, NotFoundError
from keyhouse.base.secret import Secret
from keyhouse.coordinator import (
    AcknowledgeUpdate,
    CancelUpdate,
    InitiateUpdate,
    SentUpdate,
    StaleError,
    UpdatePackages,
    prepare_acknowledgement,
    prepare_upload,
)
from keyhouse.coordinator.core.commands import basis_of
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.decide import decide
from keyhouse.coordinator.core.events import UpdateCancelled
from keyhouse.wire.secret_types import UserSecret


def _argv(word: str) -> Callable[[Document], object]:
    """Return a change that only makes a manifest differ."""
    return lambda content: content["Marbles"]["web"]["Parameters"].update({"Argv": [word]})


def _by_two(change: Callable[[Document], object] = lambda _: None) -> bytes:
    """Return a manifest that ``alice`` and ``bob`` update together, after ``change``."""

    def together(content: Document) -> None:
        bob = {"Certificate": user("bob").pem.decode(), "Roles": ["admin"]}
        content["Users"]["bob"] = bob
        content["Config"]["UpdateThreshold"] = 2
        change(content)

    return encoded(together)


def _initiation(deployment: Deployment, raw: bytes) -> InitiateUpdate:
    command = deployment.prepare(raw)
    assert isinstance(command, InitiateUpdate)
    return command


def _acknowledgement(deployment: Deployment, raw: bytes) -> AcknowledgeUpdate:
    return prepare_acknowledgement(deployment.state, SentUpdate(user("bob").der, raw), now=NOW)


def test_an_update_checked_against_another_manifest_is_stale() -> None:
    deployment = Deployment(_by_two())
    command = _initiation(deployment, _by_two(_argv("new")))
    with pytest.raises(StaleError):
        deployment.do(msgspec.structs.replace(command, based_on=_by_two(_argv("old"))))
    assert deployment.state.pending is None
    deployment.do(command)
    assert deployment.state.pending is not None


def test_what_is_bound_to_a_plan_is_stale_when_its_facts_have_changed() -> None:
    new = _by_two(_argv("new"))
    deployment = Deployment(_by_two())
    before = basis_of(deployment.state, uploads=["note"])
    initiation = msgspec.structs.replace(_initiation(deployment, new), basis=before)
    package = deployment.prepare(raised(app=9), by="releaser")
    assert isinstance(package, UpdatePackages)
    deployment.upload(note=b"now there is a value")
    for command in (initiation, msgspec.structs.replace(package, basis=before)):
        with pytest.raises(StaleError):
            deployment.do(command)
    after = basis_of(deployment.state, uploads=["note"])
    deployment.do(msgspec.structs.replace(initiation, basis=after))
    acknowledgement = _acknowledgement(deployment, new)
    with pytest.raises(StaleError):
        deployment.do(msgspec.structs.replace(acknowledgement, basis=before))
    deployment.do(msgspec.structs.replace(acknowledgement, basis=after))
    assert deployment.state.manifest == new


def test_a_package_update_of_another_manifest_or_authority_is_stale() -> None:
    deployment = Deployment(encoded())
    command = deployment.prepare(raised(app=9), by="releaser")
    assert isinstance(command, UpdatePackages)
    for passed in (
        msgspec.structs.replace(command, manifest=encoded(_argv("old"))),
        msgspec.structs.replace(command, intermediate=b"another"),
    ):
        with pytest.raises(StaleError):
            deployment.do(passed)
    deployment.do(command)
    assert deployment.state.security_versions["app"] == 9


def test_an_application_made_for_another_manifest_or_authority_is_stale() -> None:
    deployment = Deployment(encoded())
    command = _initiation(deployment, encoded(_argv("new")))
    application = command.application
    assert application is not None
    for passed in (
        msgspec.structs.replace(application, based_on=encoded(_argv("old"))),
        msgspec.structs.replace(application, intermediate=b"another"),
        None,
    ):
        with pytest.raises(StaleError):
            deployment.do(msgspec.structs.replace(command, application=passed))
    deployment.do(command)
    assert deployment.state.manifest == encoded(_argv("new"))


def test_a_value_uploaded_meanwhile_that_the_new_templates_cannot_show_makes_it_stale() -> None:
    def show(content: Document) -> None:
        content["Marbles"]["web"]["Parameters"]["Env"]["NOTE"] = "{{ string .Secrets.note }}"

    for value, is_stale in ((b"a zero \0 byte", True), (b"text", False)):
        deployment = Deployment(encoded())
        deployment.upload(note=b"kept")
        command = _initiation(deployment, encoded(show))
        deployment.upload(note=value, other=b"\0 that no template reads")
        if is_stale:
            with pytest.raises(StaleError):
                deployment.do(command)
        else:
            deployment.do(command)
            assert deployment.state.secrets["note"].private.reveal() == value


def test_while_an_update_is_pending_versions_stay_whenever_that_was_prepared() -> None:
    deployment = Deployment(_by_two())
    command = deployment.prepare(raised(app=9), by="releaser")
    deployment.do(_initiation(deployment, _by_two(_argv("new"))))
    with pytest.raises(ConflictError, match="pending"):
        deployment.do(command)


def test_uploads_checked_against_another_manifest_or_pending_update_are_stale() -> None:
    deployment = Deployment(_by_two())
    uploads = {"note": UserSecret(key=Secret(b"value"))}
    early = prepare_upload(deployment.state, user("writer").der, uploads)
    with pytest.raises(StaleError):
        deployment.do(msgspec.structs.replace(early, manifest=_by_two(_argv("old"))))
    deployment.do(_initiation(deployment, _by_two(_argv("new"))))
    with pytest.raises(StaleError):
        deployment.do(early)
    deployment.do(prepare_upload(deployment.state, user("writer").der, uploads))
    deployment.do(CancelUpdate(identity=user("bob").der, manifest=None))
    deployment.do(early)


def test_only_the_named_update_is_cancelled() -> None:
    pending = _by_two(_argv("new"))
    deployment = Deployment(_by_two())
    deployment.do(_initiation(deployment, pending))
    for identity in (user("alice").der, None):
        with pytest.raises(NotFoundError, match="no longer pending"):
            deployment.do(CancelUpdate(identity=identity, manifest=_by_two(_argv("other"))))
    deployment.do(CancelUpdate(identity=None, manifest=pending))
    assert deployment.state.pending is None


def test_what_cannot_be_applied_is_cancelled_also_where_the_removed_may_not_cancel() -> None:
    deployment = Deployment(_by_two())
    deployment.do(_initiation(deployment, _by_two(_argv("new"))))
    strict = Context(
        now=NOW,
        platform="test",
        instance=bytes(16),
        version="0.1.0",
        measurement=bytes(32),
        removed_may_cancel=False,
    )
    (event,) = decide(deployment.state, CancelUpdate(identity=None, manifest=None), strict)
    assert isinstance(event, UpdateCancelled)
    assert event.user == ""
