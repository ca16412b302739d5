"""Rights, thresholds and signatures by one manifest."""

import pytest
from support.samples.updates import document, together

from keyhouse.evidence.errors import HistoryRefusedError
from keyhouse.evidence.members import members_of, require_head
from keyhouse.manifest import Action
from keyhouse.transparency.approval import Approval, DecisionKind, TreeHead

ROOT = bytes(range(32))


def at_head(size: int, root: bytes = ROOT) -> Approval:
    return Approval(
        origin="log.example",
        root="a" * 64,
        decision=DecisionKind.PROPOSE,
        user="alice",
        base="b" * 64,
        manifest="c" * 64,
        plan="",
        head=TreeHead(size, root.hex()),
        time=1,
    )


def test_without_a_threshold_all_have_to_agree_or_recover() -> None:
    holders = ("rk0", "rk1", "rk2")

    every = members_of(together(holders=holders, UpdateThreshold=0))
    some = members_of(together(holders=holders, RecoveryThreshold=2))

    assert (every.needed, every.recovery) == (len(document()["Users"]) - 2, (3, 3))
    assert (some.needed, some.recovery) == (2, (3, 2))
    assert members_of(together()).recovery == (0, 0)


def test_only_holders_of_recovery_keys_recover() -> None:
    members = members_of(together(holders=("rk0", "rk1")))

    members.require_holders(["rk0", "rk1"])
    with pytest.raises(HistoryRefusedError, match='recovery key "other"'):
        members.require_holders(["rk0", "other"])


@pytest.mark.parametrize("name", ["unknown", "note", ""])
def test_what_is_not_a_package_has_no_security_version(name: str) -> None:
    members = members_of(together())

    assert members.security_version("app") == 3
    with pytest.raises(HistoryRefusedError, match=f'package "{name}"'):
        members.security_version(name)


def test_a_right_on_one_resource_is_not_a_right_on_another() -> None:
    members = members_of(together())

    for _ in range(2):  # the second answer is remembered
        members.require_allowed("writer", Action.WRITE_SECRET, ["note"])
        for names in (["note", "shared"], ["note", "unknown"], [""]):
            with pytest.raises(HistoryRefusedError, match=r'"writer" .*WriteSecret'):
                members.require_allowed("writer", Action.WRITE_SECRET, names)


@pytest.mark.parametrize(
    ("size", "fits"), [(3, False), (4, True), (5, True), (6, True), (7, False)]
)
def test_the_head_covers_the_last_decision_and_nothing_later(size: int, *, fits: bool) -> None:
    if fits:
        require_head(at_head(size), lambda _: ROOT, 4, 6)
        return
    with pytest.raises(HistoryRefusedError, match=f" {size} entries.* 4 to 6 "):
        require_head(at_head(size), lambda _: ROOT, 4, 6)


def test_the_head_is_one_of_this_log() -> None:
    roots = {4: bytes(32), 5: ROOT}

    require_head(at_head(5), roots.__getitem__, 4, 6)
    with pytest.raises(HistoryRefusedError, match="forked"):
        require_head(at_head(4), roots.__getitem__, 4, 6)
