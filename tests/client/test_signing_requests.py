"""When a request is signed, and when it is signed again, while others decide something."""

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.samples.deployment import user

from keyhouse.base.secret import Secret
from keyhouse.client import CallRefusedError, ClientSetupError, PemIdentity, TrustError
from keyhouse.client.effects import Steps, Work
from keyhouse.client.errors import CallUnknownError
from keyhouse.client.public_log import LogCheckpoint
from keyhouse.client.signed_approvals import (
    ATTEMPTS,
    ApprovalInputs,
    Signer,
    Statement,
    signer_of,
    with_approval,
)
from keyhouse.transparency.approval import DecisionKind, SignedApproval

ROOT = b"the root certificate"
STATEMENT = Statement(DecisionKind.PROPOSE, b"new", "ab" * 32)
OUTDATED = CallRefusedError(409, "the log has a decision that is newer than the approval")


def manifest(name: str = "alice", word: str = "") -> bytes:
    people = {name: {"certificate": user("alice").pem.decode()}, "bob": {"Certificate": "none"}}
    return json.dumps({"users": people, "Marbles": {word: {}}}).encode()  # names in any case


def checkpoint(size: int) -> LogCheckpoint:
    return LogCheckpoint("keyhouse/1", size, bytes([size]) * 32, b"", "")


def given(value: Any) -> Steps[Any]:
    """Return ``value``, or raise it, as steps do."""
    yield from ()
    if isinstance(value, Exception):
        raise value
    return value


def inputs(
    seen: Iterator[object], manifests: Callable[[], object], signer: Signer | None
) -> ApprovalInputs:
    return ApprovalInputs(
        ROOT, lambda: signer, lambda: given(next(seen)), lambda: given(manifests())
    )


def alice() -> Signer | None:
    return signer_of(PemIdentity(user("alice").pem, Secret(user("alice").key_pem)))


def run(steps: Steps[Any]) -> Any:
    """Carry ``steps`` out, which make no request themselves."""
    result = None
    while True:
        try:
            effect = steps.send(result)
        except StopIteration as end:
            return end.value
        assert isinstance(effect, Work)
        result = effect.run()


def sending(answers: Iterator[object], sent: list[bytes | None]) -> Callable[[Any], Steps[Any]]:
    def send(envelope: bytes | None) -> Steps[Any]:
        sent.append(envelope)
        return (yield from given(next(answers)))

    return send


def test_what_is_signed_is_what_was_seen() -> None:
    sent: list[bytes | None] = []
    at = inputs(iter([checkpoint(7)]), manifest, alice())
    assert run(with_approval(at, STATEMENT, sending(iter(["done"]), sent))) == "done"
    assert sent[0] is not None
    signed = SignedApproval.read(sent[0])
    signed.verify(user("alice").der)
    found = signed.approval
    assert (found.origin, found.decision, found.user) == ("keyhouse/1", "propose", "alice")
    assert (found.plan, found.head.size, found.head.root) == ("ab" * 32, 7, "07" * 32)
    assert [found.root, found.base, found.manifest] == [
        hashlib.sha256(raw).hexdigest() for raw in (ROOT, manifest(), b"new")
    ]


@pytest.mark.parametrize(
    ("seen", "names", "signs"),
    [
        (CallUnknownError("an older version"), "alice", True),
        (CallRefusedError(409, "not in this phase"), "alice", True),
        (checkpoint(7), "alice", False),
    ],
    ids=["no log", "no log now", "a key that cannot"],
)
def test_without_a_log_or_such_a_key_nothing_is_signed(
    seen: object, names: str, *, signs: bool
) -> None:
    sent: list[bytes | None] = []
    at = inputs(iter([seen]), lambda: manifest(names), alice() if signs else None)
    run(with_approval(at, STATEMENT, sending(iter(["done"]), sent)))
    assert sent == [None]


def test_a_user_that_the_manifest_does_not_name_signs_nothing() -> None:
    sent: list[bytes | None] = []
    at = inputs(iter([checkpoint(7)]), lambda: b'{"Users": {}}', alice())
    run(with_approval(at, STATEMENT, sending(iter(["done"]), sent)))
    assert sent == [None]


def test_a_log_that_does_not_verify_ends_it() -> None:
    sent: list[bytes | None] = []
    at = inputs(iter([TrustError("fork")]), manifest, alice())
    with pytest.raises(TrustError):
        run(with_approval(at, STATEMENT, sending(iter([]), sent)))
    assert sent == []


def test_a_key_of_another_certificate_signs_nothing() -> None:
    stranger = PemIdentity(user("alice").pem, Secret(user("bob").key_pem))
    at = inputs(iter([checkpoint(7)]), manifest, signer_of(stranger))
    with pytest.raises(ClientSetupError, match="does not verify"):
        run(with_approval(at, STATEMENT, sending(iter([]), [])))


def test_after_a_decision_of_others_it_is_signed_again() -> None:
    sent: list[bytes | None] = []
    at = inputs(iter([checkpoint(7), checkpoint(8)]), manifest, alice())
    assert run(with_approval(at, STATEMENT, sending(iter([OUTDATED, "done"]), sent))) == "done"
    sizes = [SignedApproval.read(each).approval.head.size for each in sent if each is not None]
    assert sizes == [7, 8]


def test_it_is_refused_at_last_when_looking_again_changes_nothing_or_too_much() -> None:
    def refusals(heads: list[int], words: list[str]) -> int:
        sent: list[bytes | None] = []
        names = iter(words)
        at = inputs(map(checkpoint, heads), lambda: manifest(word=next(names)), alice())
        with pytest.raises(CallRefusedError):
            run(with_approval(at, STATEMENT, sending(iter([OUTDATED] * 9), sent)))
        return len(sent)

    assert refusals([7, 7], ["", ""]) == 1  # nothing new
    assert refusals([7, 8], ["", "another"]) == 1  # another manifest is in force
    assert refusals([7, 8, 9, 10], [""] * 4) == ATTEMPTS
