"""The evidence of two logs is verified together: the second log begins where the first one ends."""

import copy
import hashlib
import json
from base64 import b64decode
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace
from support.evidence import BEGUN, FIRST, SECOND, Maker, Said, history
from support.forger.honest import certificate_of
from support.samples.updates import together

from keyhouse.evidence.bundle import Evidence
from keyhouse.evidence.errors import EvidenceRefusedError, Step
from keyhouse.evidence.gaps import Gap
from keyhouse.evidence.pins import Pins
from keyhouse.evidence.report import gaps_of, result_of, summary_of
from keyhouse.evidence.verify import Outcome, examine, verify
from keyhouse.transparency.keys import ED25519, VerifierKey
from keyhouse.transparency.leaf import object_name
from keyhouse.transparency.policy import CosignaturePolicy

HOUR = timedelta(hours=1)
OLDER = frozenset({Gap.OLDER_THAN_LOG, Gap.INTERMEDIATE_UNKNOWN})


@pytest.fixture(scope="module", name="maker")
def _maker() -> Maker:
    return Maker(ml_dsa=False)


@pytest.fixture(scope="module", name="old")
def _old(maker: Maker) -> Evidence:
    return maker.evidence(history(maker))


def later(maker: Maker, number: int = 2) -> Maker:
    """Return the same deployment with another log."""
    found = copy.copy(maker)
    found.origin = f"{maker.origin}/{number}"
    found.log = Ed25519PrivateKey.generate()
    found.key = VerifierKey(found.origin, ED25519, found.log.public_key().public_bytes_raw())
    return found


def time_at(minutes: int) -> int:
    return int((BEGUN + timedelta(minutes=minutes)).timestamp()) * 1_000_000


def end_of(old: Evidence) -> Said:
    """Return the last checkpoint of ``old``, as the first leaf of a new log names it."""
    origin, size, root = old.checkpoints[-1].split("\n")[:3]
    known = {"origin": origin, "size": int(size), "root": b64decode(root).hex()}
    return {**known, "reason": "--begin-new-log"}


def begun(maker: Maker, old: Evidence, **changed: Any) -> Said:
    """Return the first leaf of the log of ``maker``, which replaces the log of ``old``."""
    return {
        "v": 1, "time": time_at(10), "kind": "log-begun", "origin": maker.origin,
        "root": object_name(maker.root), "key": str(maker.key), "platform": "simulation",
        "imported": "", "manifest": object_name(SECOND), "public": True,
        "intermediate": object_name(maker.keys.intermediate_cert), "previous": end_of(old),
        **changed,
    }  # fmt: skip


def started(maker: Maker, sequence: int = 1, epoch: int = 3, **changed: Any) -> Said:
    said = next(each for each in history(maker) if each["kind"] == "started")
    instance = hashlib.sha256(b"%d %d" % (epoch, sequence)).hexdigest()[:32]
    at = {"time": time_at(10), "at": f"{epoch}.{sequence}.{'0' * 64}"}
    return {**said, "instance": instance, **at, **changed}


def raised(maker: Maker, version: int) -> Said:
    said = next(each for each in history(maker) if each["kind"] == "packages-updated")
    update = {"base": object_name(SECOND), "versions": [["app", str(version)]], "approval": ""}
    return {**said, **update, "time": time_at(10)}


def agreed(kind: str, user: str, manifest: bytes, **fields: Any) -> Said:
    who = {"user": user, "certificate": certificate_of(user), "plan": "", "approval": ""}
    said = {"v": 1, "time": time_at(10), "kind": kind, "manifest": object_name(manifest)}
    return {**said, **who, **fields}


def pair(maker: Maker, old: Evidence, *more: Said, **changed: Any) -> Evidence:
    """Return the evidence of a log that replaces that of ``old``."""
    new = later(maker)
    return new.evidence([begun(new, old, **changed), *(more or (started(new),))])


def refusal(new: Evidence, pins: Pins, *before: Evidence) -> EvidenceRefusedError:
    with pytest.raises(EvidenceRefusedError) as refused:
        verify(new, pins, *before)
    return refused.value


def test_a_log_that_continues_the_log_before_has_no_gap(maker: Maker, old: Evidence) -> None:
    new = pair(maker, old)

    assert list(examine(new, maker.pins()).gaps) == [Gap.REPLACES_LOG]
    verified = verify(new, maker.pins(), old)

    assert verified.outcome is Outcome.PROVEN
    assert [log.evidence for log in verified.logs] == [new, old]
    first, end = verified.entries[0].after, verify(old, maker.pins()).entries[-1].after
    assert (first.identity.origin, first.size, first.decided) == (new.origin, 1, 1)
    assert (first.started, first.manifest) == (end.started, object_name(SECOND))


@pytest.mark.parametrize(
    ("ending", "why"),
    [
        (lambda said: said[:-1], (" 11 entries ", " 10")),
        (
            lambda said: [*said, {**said[-2], "time": time_at(10), "at": f"2.20.{'0' * 64}"}],
            (" 11 entries ", " 12"),
        ),
        (
            lambda said: [*said[:-1], {**said[-1], "instance": "f" * 32}],
            (" 11 entries ", "another root"),
        ),
    ],
)
def test_a_log_that_ends_elsewhere_is_not_the_log_before(
    maker: Maker, old: Evidence, ending: Callable[[list[Said]], list[Said]], why: tuple[str, str]
) -> None:
    other = maker.evidence(ending(history(maker)))
    verify(other, maker.pins())

    refused = refusal(pair(maker, old), maker.pins(), other)

    assert refused.step is Step.HISTORY
    assert all(each in refused.message for each in ("entry 0: ", *why))


def test_another_log_is_not_the_log_before(maker: Maker, old: Evidence) -> None:
    strange, other, new = Maker(ml_dsa=False), later(maker, 7), pair(maker, old)
    of_another = strange.evidence(history(strange))
    same_root = other.evidence([begun(other, old), started(other)])

    deployment = refusal(new, maker.pins(), of_another)
    name = refusal(new, maker.pins(), same_root)

    assert deployment.step is Step.DEPLOYMENT
    assert f'"{strange.origin}"' in deployment.message
    assert f'"{maker.origin}"' in name.message
    assert f'"{other.origin}"' in name.message
    assert "does not replace another log" in refusal(old, maker.pins(), old).message


def test_another_root_is_noticed_where_the_first_manifest_alone_is_pinned(maker: Maker) -> None:
    strange = Maker(ml_dsa=False)
    old = strange.evidence(history(strange))
    pins = maker.pins(
        root="",
        manifest=object_name(FIRST),
        vendor_root=strange.platform.root_ca,
        policy=CosignaturePolicy.read(strange.policy),
    )
    examine(old, pins)

    refused = refusal(pair(maker, old), pins, old)

    assert refused.step is Step.DEPLOYMENT
    assert "--before" in refused.message


def test_a_log_names_the_manifest_that_the_log_before_did_not_name(
    maker: Maker,
) -> None:
    lines = b"lines"
    first = begun(maker, maker.evidence(history(maker)), previous=None)
    for name in ("manifest", "intermediate", "public"):
        del first[name]
    old = maker.evidence([{**first, "imported": object_name(lines)}, started(maker, epoch=1)])
    old = replace(old, objects={**old.objects, object_name(lines): lines})
    new = pair(maker, old)

    verified = verify(new, maker.pins(allowed=OLDER), old)

    after = verified.entries[-1].after
    assert (after.manifest, after.is_older) == (object_name(SECOND), True)
    assert after.intermediate == object_name(maker.keys.intermediate_cert)
    assert list(verified.gaps) == []


def test_a_log_does_not_replace_itself(maker: Maker, old: Evidence) -> None:
    new = maker.evidence([begun(maker, old), started(maker)])

    refused = refusal(new, maker.pins(), old)
    assert refused.step is Step.HISTORY
    assert refused.message.count(f'"{maker.origin}"') == 3  # the new, the replaced, the given log


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"manifest": object_name(FIRST)}, f"manifest {object_name(FIRST)}"),
        ({"intermediate": "a" * 64}, f"certificate {'a' * 64}"),
        ({"platform": "sgx"}, "platform sgx"),
        ({"time": time_at(-1)}, "claimed time"),
    ],
    ids=["manifest", "intermediate", "platform", "time"],
)
def test_a_log_begins_with_the_state_at_the_end_before(
    maker: Maker, old: Evidence, changed: dict[str, object], why: str
) -> None:
    refused = refusal(pair(maker, old, **changed), maker.pins(), old)

    assert refused.step is Step.HISTORY
    assert "entry 0: " in refused.message
    assert why in refused.message


def test_times_do_not_run_back_behind_the_first_entry(maker: Maker, old: Evidence) -> None:
    new = pair(maker, old, started(maker, time=time_at(9)))

    assert "is before the previous entry's time" in refusal(new, maker.pins(), old).message


def test_a_log_of_an_older_version_is_continued_without_naming_the_manifest(
    maker: Maker, old: Evidence
) -> None:
    new = later(maker)
    first = begun(new, old)
    for name in ("manifest", "intermediate", "public"):
        del first[name]

    verified = verify(new.evidence([first, started(new)]), maker.pins(), old)

    assert verified.outcome is Outcome.PROVEN
    assert verified.entries[-1].after.manifest == object_name(SECOND)


def test_the_state_at_the_end_before_still_counts(maker: Maker, old: Evidence) -> None:
    said = history(maker)
    version = maker.evidence([*said, raised(maker, 9)])
    unsigned = maker.pins(allowed=frozenset({Gap.NOT_SIGNED}))
    ends = {
        "position": (
            old,
            [started(maker, 5, epoch=2)],
            "the position in the journal does not increase",
        ),
        "instance": (
            old,
            [started(maker, instance=said[-1]["instance"])],
            f"the instance {said[-1]['instance']} starts twice",
        ),
        "version": (version, [raised(maker, 8)], 'security version of "app" was lowered'),
    }
    for before, more, why in ends.values():
        new = pair(maker, before, *more)
        assert why in refusal(new, unsigned, before).message
        examine(new, unsigned)
    verify(pair(maker, version, raised(maker, 9)), unsigned, version)


def test_a_pending_update_is_still_pending_with_its_votes(maker: Maker) -> None:
    third = together(word="third")
    proposal = agreed("update-proposed", "alice", third, base=object_name(SECOND), needed=2)
    old = maker.evidence([*history(maker), {**proposal, "public": False}])
    approval = agreed("update-approved", "bob", third, missing=0)
    again = agreed("update-approved", "alice", third, missing=0)
    applied = {
        "v": 1, "time": time_at(10), "kind": "manifest-updated", "base": object_name(SECOND),
        "manifest": object_name(third), "recovery": None, "public": False,
        "intermediate": object_name(maker.keys.intermediate_cert),
    }  # fmt: skip
    allowed = maker.pins(allowed=frozenset({Gap.NOT_SIGNED, Gap.MANIFEST_NOT_PUBLIC}))

    verified = verify(pair(maker, old, approval, applied), allowed, old)

    assert verified.gaps == {Gap.NOT_SIGNED: (1,), Gap.MANIFEST_NOT_PUBLIC: (2,)}
    assert verified.entries[1].after.pending is not None
    assert verified.entries[1].after.pending.voters == ("alice", "bob")
    assert Gap.AGREED_BEFORE_LOG in examine(pair(maker, old, approval, applied), allowed).gaps
    twice = refusal(pair(maker, old, again, applied), allowed, old)
    assert "states that 0 more users have to agree; expected 1" in twice.message


def test_gaps_of_the_log_before_refuse_as_well(maker: Maker) -> None:
    old = maker.evidence([*history(maker), raised(maker, 4)])
    new = pair(maker, old)

    refused = refusal(new, maker.pins(), old)
    verified = verify(new, maker.pins(allowed=frozenset({Gap.NOT_SIGNED})), old)

    assert refused.step is Step.GAPS
    assert f"entry 11 of {maker.origin}" in refused.message
    unsigned = pair(maker, maker.evidence(history(maker)), raised(maker, 4))
    with pytest.raises(EvidenceRefusedError, match=rf"{Gap.NOT_SIGNED} .*entry 1\)"):
        verify(unsigned, maker.pins(allowed=frozenset({Gap.REPLACES_LOG})))
    assert (verified.gaps, verified.outcome) == ({}, Outcome.EXCEPT_ALLOWED)
    assert gaps_of(verified)[0].endswith(f"(entry 11 of the log before, {maker.origin})")
    (before,) = json.loads(msgspec.json.encode(result_of(verified)))["before"]
    assert (before["origin"], before["size"]) == (maker.origin, 12)
    assert [each["name"] for each in before["gaps"]] == [Gap.NOT_SIGNED]
    assert summary_of(verified)[f"log before, {maker.origin}"].startswith("12 entries, root ")


def test_three_logs_are_verified_in_their_order(maker: Maker, old: Evidence) -> None:
    second, third = later(maker), later(maker, 3)
    middle = second.evidence([begun(second, old), started(second)])
    again = started(maker, instance=history(maker)[2]["instance"], epoch=4)
    new = third.evidence([begun(third, middle), started(third, epoch=4)])

    verified = verify(new, maker.pins(), old, middle)

    assert [log.evidence.origin for log in verified.logs] == [
        *(third.origin, second.origin, maker.origin)
    ]
    assert refusal(new, maker.pins(), middle).step is Step.GAPS
    assert "does not replace another log" in refusal(new, maker.pins(), middle, old).message
    repeated = third.evidence([begun(third, middle), again])
    assert "starts twice" in refusal(repeated, maker.pins(), old, middle).message


def test_the_first_manifest_is_in_the_first_log(maker: Maker, old: Evidence) -> None:
    new = pair(maker, old)
    pins = maker.pins(root="", manifest=object_name(FIRST))
    other = maker.pins(root="", manifest=object_name(SECOND))

    assert refusal(new, pins).step is Step.DEPLOYMENT
    assert refusal(new, other, old).step is Step.DEPLOYMENT
    assert list(examine(new, pins, old).gaps) == [Gap.ROOT_NOT_PINNED]


def test_only_the_newest_log_has_a_maximum_age(maker: Maker, old: Evidence) -> None:
    new = later(maker)
    late = new.evidence([begun(new, old), started(new)], seen=BEGUN + 2 * HOUR)
    now = BEGUN + 3 * HOUR

    verify(late, maker.pins(now=now, max_age=HOUR), old)
    refused = refusal(late, maker.pins(now=now + HOUR, max_age=HOUR), old)

    assert refused.step is Step.WITNESSES
    assert str(HOUR) in refused.message
    assert old.origin not in refused.message


def test_the_log_before_is_verified_itself(maker: Maker, old: Evidence) -> None:
    damaged = replace(old, head=replace(old.head, nonce=b"another"))

    refused = refusal(pair(maker, old), maker.pins(), damaged)

    assert refused.step is Step.HARDWARE
    assert f'"{old.origin}"' in refused.message
