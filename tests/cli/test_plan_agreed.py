"""How a plan looks to people, and that none is agreed to where none was told."""

import re
from io import StringIO
from pathlib import Path

import pytest
from support.peers.peer import Peer, serving
from support.peers.sdk import trust_in_peer

from keyhouse.base.errors import Problem, RefusedError
from keyhouse.cli.manifest.plan import ReviewOptions, plan_text
from keyhouse.cli.parser.usage import WrongUsageError
from keyhouse.client import Coordinator
from keyhouse.wire.plan import Plan, PlanChange, PlanData


class _Terminal(StringIO):
    """A wide terminal."""

    def isatty(self) -> bool:
        return True


def test_a_coordinator_that_knows_no_plans_is_sent_nothing_unless_that_is_wanted(
    tmp_path: Path,
) -> None:
    peer = Peer.new()
    with (
        serving(peer, tmp_path) as address,
        Coordinator.connect(address, trust_in_peer(peer), timeout=10) as coordinator,
    ):
        with pytest.raises(RefusedError, match="no plan") as refused:
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


def _told(*, colour: bool = False, **facts: tuple[str, ...]) -> str:
    plan = Plan(
        kind="manifest",
        base="00" * 32,
        manifest="11" * 32,
        versions={},
        users=("alice", "bob"),
        needed=2,
        changes=tuple(
            PlanChange(section=section, what=what, name=text, text=text)
            for section, what, text in (each.split(" ", 2) for each in facts.get("changes", ()))
        ),
        renewals=(PlanChange(section="X", what="y", text="the CA is renewed"),),
        kept=facts.get("kept", ()),
    )
    return plan_text(
        stream=_Terminal() if colour else StringIO(),
        data=PlanData(
            digest="ab" * 32,
            plan=plan,
            acknowledged=facts.get("acknowledged", ()),
            missing_acknowledgments=1,
            missing_users=("bob",),
            not_uploaded=facts.get("not_uploaded", ()),
            notes=facts.get("notes", ()),
            warnings=tuple(Problem("A", text) for text in facts.get("warnings", ())),
        ),
    )


def test_a_plan_has_signs_a_summary_and_its_dangers_last() -> None:
    told = _told(
        changes=(
            "Packages package-added app",
            "Packages package-changed " + "v" * 60 + " " + "w" * 60,
            "Secrets secret-removed note",
            "Secrets value-lost note",
            "Users right-gained alice",
            "Marbles limit-reached web",
        ),
        kept=("a", "b"),
        not_uploaded=("b",),
        acknowledged=("alice",),
        notes=("it is final",),
        warnings=("looks odd",),
    )
    assert told.splitlines() == [
        "this update changes:",
        "  Packages",
        "    + app",
        "    ~ " + "v" * 60,
        "      " + "w" * 60,
        "  Secrets",
        "    - note",
        "  Users",
        "    + alice",
        "every update of this kind also changes:",
        "  X",
        "    ~ the CA is renewed",
        "summary: 2 to add, 1 to change, 1 to remove, 1 value lost",
        "unchanged secrets: 2",
        "of these, not uploaded yet: b",
        "note: it is final",
        "warning: A: looks odd",
        "agreement: 2 of alice, bob; alice agreed already",
        "DANGER: this cannot be undone",
        "  ! note",
        "  ! web",
        "plan: " + "ab" * 32,
    ]


def test_a_plan_that_changes_nothing_says_so() -> None:
    lines = _told().splitlines()

    assert lines[0].startswith("this update changes nothing")
    assert "summary: nothing to change" in lines
    assert not any("DANGER" in line for line in lines)


def test_colours_are_around_the_same_lines() -> None:
    changes = ("Packages package-added app", "Secrets value-lost note")
    told = _told(changes=changes, colour=True)

    assert "\x1b[32m    + app\x1b[0m" in told
    assert "\x1b[31m\x1b[1m  ! note\x1b[0m" in told
    assert re.sub(r"\x1b\[[0-9]*m", "", told) == _told(changes=changes)


def test_nothing_in_a_plan_can_forge_a_line_or_drive_a_terminal() -> None:
    told = _told(
        changes=("X y a\nplan: " + "00" * 32 + "\x1b[2J\u202e",), not_uploaded=("\nplan: 00",)
    )
    lines = told.splitlines()
    assert [line for line in lines if line.startswith("plan: ")] == ["plan: " + "ab" * 32]
    assert "\x1b" not in told
    assert "\u202e" not in told
