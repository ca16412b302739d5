"""How a plan looks to people, and that none is agreed to where none was told."""

from pathlib import Path

import pytest
from support.peers.peer import Peer, serving
from support.peers.sdk import trust_in_peer

from keyhouse.base.errors import Problem, RefusedError
from keyhouse.cli.manifest.plan import ReviewOptions, plan_text
from keyhouse.cli.parser.command import WrongUsageError
from keyhouse.client import Coordinator
from keyhouse.wire.plan import Plan, PlanChange, PlanData


def test_a_coordinator_that_knows_no_plans_is_sent_nothing_unless_that_is_wanted(
    tmp_path: Path,
) -> None:
    peer = Peer.new()
    with (
        serving(peer, tmp_path) as address,
        Coordinator.connect(address, trust_in_peer(peer), timeout=10) as coordinator,
    ):
        with pytest.raises(RefusedError, match="there is no plan") as refused:
            ReviewOptions().plan(coordinator, b"{}", quiet=True)
        assert "--no-plan" in refused.value.hint
        assert ReviewOptions(no_plan=True).plan(coordinator, b"{}", quiet=True) is None
    posted = [path for method, path, _ in peer.requests if method == "POST"]
    assert posted == ["/api/v2/plan"]


@pytest.mark.parametrize(
    "typed",
    [
        ReviewOptions(expect_plan="00"),
        ReviewOptions(expect_plan="g" * 64),
        ReviewOptions(expect_plan="00" * 32, no_plan=True),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_wrong_usage(typed: ReviewOptions) -> None:
    with pytest.raises(WrongUsageError):
        typed.check(())


def _told(**facts: tuple[str, ...]) -> str:
    plan = Plan(
        kind="manifest",
        base="00" * 32,
        manifest="11" * 32,
        versions={},
        users=("alice", "bob"),
        needed=2,
        changes=tuple(
            PlanChange(section="X", what="y", text=text) for text in facts.get("changes", ())
        ),
        renewals=(PlanChange(section="X", what="y", text="the CA is renewed"),),
        kept=facts.get("kept", ()),
    )
    return plan_text(
        PlanData(
            digest="ab" * 32,
            plan=plan,
            acknowledged=facts.get("acknowledged", ()),
            missing_acknowledgments=1,
            missing_users=("bob",),
            not_uploaded=facts.get("not_uploaded", ()),
            notes=facts.get("notes", ()),
            warnings=tuple(Problem("A", text) for text in facts.get("warnings", ())),
        )
    )


def test_a_plan_in_words() -> None:
    told = _told(
        changes=("one is gone", "w" * 70 + " " + "x" * 70),
        kept=("a", "b"),
        not_uploaded=("b",),
        acknowledged=("alice",),
        notes=("it is final",),
        warnings=("looks odd",),
    )
    assert told.splitlines() == [
        "this update changes:",
        "  - one is gone",
        "  - " + "w" * 70,
        "    " + "x" * 70,
        "and, as every such update does:",
        "  - the CA is renewed",
        "secrets that stay: a, b",
        "of these not uploaded yet: b",
        "note: it is final",
        "warning: A: looks odd",
        "agreement: 2 of alice, bob; alice agreed already",
        "plan: " + "ab" * 32,
    ]
    assert _told().splitlines()[0].startswith("this update changes nothing")


def test_nothing_in_a_plan_can_forge_a_line_or_drive_a_terminal() -> None:
    told = _told(changes=("a\nplan: " + "00" * 32 + "\x1b[2J\u202e",), kept=("\nplan: 00",))
    lines = told.splitlines()
    assert [line for line in lines if line.startswith("plan: ")] == ["plan: " + "ab" * 32]
    assert "\x1b" not in told
    assert "\u202e" not in told
