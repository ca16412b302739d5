"""The package update that a user signed is one that a coordinator accepts."""

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from support.samples.deployment import user
from support.samples.updates import raise_version, together

from keyhouse.evidence.agreement import DecisionPlace, agreement_gaps
from keyhouse.evidence.errors import HistoryRefusedError
from keyhouse.evidence.members import members_of
from keyhouse.transparency.approval import Approval, DecisionKind, TreeHead
from keyhouse.transparency.leaf import PackagesUpdatedLeaf, object_name
from keyhouse.transparency.sign_approval import sign_approval, signature_by

MANIFEST = together()
HEAD = bytes(32)
PLACE = DecisionPlace("log.example", "a" * 64, object_name(MANIFEST), 0, 3)


def judge(update: bytes, version: int) -> None:
    """Judge a leaf that raises ``app`` to ``version``, for which releaser signed ``update``."""
    approval = Approval(
        origin=PLACE.origin,
        root=PLACE.root,
        decision=DecisionKind.PACKAGES,
        user="releaser",
        base=PLACE.base,
        manifest=object_name(update),
        plan="",
        head=TreeHead(2, HEAD.hex()),
        time=1,
    )
    key = load_pem_private_key(user("releaser").key_pem, None)
    signed = sign_approval(approval, lambda message: signature_by(key, message))
    objects = {object_name(raw): raw for raw in (update, signed)}
    leaf = PackagesUpdatedLeaf(
        time=1,
        user="releaser",
        certificate=object_name(user("releaser").der),
        base=PLACE.base,
        versions=(("app", str(version)),),
        intermediate="b" * 64,
        plan="",
        approval=object_name(signed),
    )
    gaps = agreement_gaps(members_of(MANIFEST), leaf, PLACE, objects.get, lambda _: HEAD)
    assert gaps == ()


def test_the_signed_versions_are_those_of_the_leaf() -> None:
    judge(raise_version(4), 4)
    with pytest.raises(HistoryRefusedError, match="other security versions"):
        judge(raise_version(4), 5)


@pytest.mark.parametrize(
    "update",
    [
        b'{"Packages":{"app":{"SecurityVersion":4,"securityversion":9}}}',
        b'{"Packages":{"app":{"SecurityVersion":4},"app":{"SecurityVersion":9}}}',
        b'{"Packages":{"app":{"SecurityVersion":9,"Unknown":1}}}',
        b'{"Packages":{"app":{"SecurityVersion":9}},"Config":{"UpdateThreshold":1}}',
    ],
)
def test_an_update_that_no_coordinator_accepts_proves_nothing(update: bytes) -> None:
    with pytest.raises(HistoryRefusedError, match="other security versions"):
        judge(update, 9)
