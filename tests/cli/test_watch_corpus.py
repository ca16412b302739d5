"""Watchers apply the rules of evidence files to logs, on the same corpus."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.evidence import Maker, history
from support.evidence_corpus import CORPUS, Recorded, pins_of
from support.served_evidence import ServedEvidence

from keyhouse.cli.watch.log_poll import BrokenLogError, LogPoll
from keyhouse.cli.watch.state import WatchState
from keyhouse.evidence.bundle import read_evidence

FOLLOWED = [each for each, verdict in CORPUS.items() if verdict.followed]


@pytest.mark.parametrize("recorded", FOLLOWED, ids=lambda recorded: recorded.name)
def test_a_recorded_forgery_is_an_alert_or_breaks_the_log(recorded: Recorded) -> None:
    expected, served = CORPUS[recorded], ServedEvidence(read_evidence(recorded.raw))
    look = LogPoll("host", served, served.root_der, pins_of(recorded.folder))

    if expected.followed == "broken":
        with pytest.raises(BrokenLogError) as broken:
            look.follow(None)
        assert expected.reason in broken.value.message
        return
    alerts = [each for each in look.follow(None).findings if each.alert]
    assert any(expected.followed in why for each in alerts for why in each.why)


def test_an_honest_log_has_an_alert_for_the_lowered_version_alone() -> None:
    maker = Maker()
    served = ServedEvidence(maker.evidence(history(maker)))

    seen = LogPoll("host", served, served.root_der, maker.pins()).follow(None)

    alerts = {each.index: each.why for each in seen.findings if each.alert}
    assert alerts == {7: ('lowers the security version of "app" from 4 to 3',)}
    assert sorted(seen.watched.instances) == sorted(
        each["instance"] for each in history(maker) if each["kind"] == "started"
    )


def test_a_state_of_an_older_version_is_continued(tmp_path: Path) -> None:
    maker = Maker()
    whole = maker.evidence(
        [*history(maker), {**history(maker)[3], "time": history(maker)[-1]["time"]}],
        milestones=(6,),
    )
    early = replace(whole, entries=whole.entries[:6], checkpoints=whole.checkpoints[:1])
    first, second = ServedEvidence(early), ServedEvidence(whole)
    state = WatchState(tmp_path / "watched.json")
    state.store("host", LogPoll("host", first, first.root_der, maker.pins()).follow(None).watched)
    content = json.loads(state.path.read_bytes())
    del content["logs"]["host"]["instances"]
    del content["logs"]["host"]["history"]["pending"]["is_older"]
    state.path.write_text(json.dumps(content))

    seen = LogPoll("host", second, second.root_der, maker.pins()).follow(state.read()["host"])

    assert [each.index for each in seen.findings] == [6, 7, 8, 9, 10, 11]


def test_an_instance_that_starts_again_breaks_the_log_at_a_later_look_too() -> None:
    maker = Maker()
    said = history(maker)
    again = {**said[-1], "at": f"3.9.{'0' * 64}", "quote": None}
    whole = maker.evidence([*said, again], milestones=(len(said),))
    before = replace(whole, entries=whole.entries[:-1], checkpoints=whole.checkpoints[:-1])
    first, second = ServedEvidence(before), ServedEvidence(whole)
    known = LogPoll("host", first, first.root_der, maker.pins()).follow(None).watched

    with pytest.raises(BrokenLogError, match=r"instance [0-9a-f]{32} .*twice"):
        LogPoll("host", second, second.root_der, maker.pins()).follow(known)
