"""The parts of a supervised program: times, certificates, contents and sets of files."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from keyhouse.base.secret import Secret
from keyhouse.launcher import LaunchRefusedError
from keyhouse.launcher.credentials import Credentials, make_credentials, read_names
from keyhouse.launcher.errors import AnswerUnreadableError
from keyhouse.launcher.supervise.certificates import Identity, RenewalAnswer, WorkloadCertificates
from keyhouse.launcher.supervise.channel import Seen
from keyhouse.launcher.supervise.file_sets import FileSet
from keyhouse.launcher.supervise.partial_parameters import (
    PartialParameters,
    Pieces,
    Placeholder,
    changed,
)
from keyhouse.launcher.supervise.schedule import (
    LATER,
    SECOND,
    Backoff,
    ChannelError,
    CoordinatorClock,
    utc,
)
from keyhouse.wire import workload_pb2 as wire

NAMES = read_names("localhost")
NOW = 1_800_000_000 * SECOND
OLD, NEW = b"marble root 1", b"marble root 2"


class Elapsed:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def identity(root: bytes = OLD) -> Identity:
    return Identity(make_credentials(NAMES), b"", root)


def renewed(made: Identity, *trusted: bytes, settle: int = 0, now: int = NOW) -> RenewalAnswer:
    end = now + 3600 * SECOND
    return RenewalAnswer(made, now, now + 1800 * SECOND, end, settle, frozenset(trusted))


@pytest.fixture
def elapsed() -> Elapsed:
    return Elapsed()


@pytest.fixture
def clock(elapsed: Elapsed) -> CoordinatorClock:
    clock = CoordinatorClock(elapsed, lambda: NOW / SECOND)
    clock.set(NOW)
    return clock


def test_the_clock_counts_elapsed_time_from_the_last_answer(
    clock: CoordinatorClock, elapsed: Elapsed
) -> None:
    elapsed.seconds += 10
    assert clock.now() == NOW + 10 * SECOND
    assert clock.until(NOW + 15 * SECOND) == 5
    assert clock.until(NOW) == 0
    clock.set(NOW + 500 * SECOND)  # the machine was stopped, and elapsed time with it
    assert clock.until(NOW + 15 * SECOND) == 0
    assert clock.is_apart


def test_a_clock_within_a_minute_is_not_reported(elapsed: Elapsed) -> None:
    clock = CoordinatorClock(elapsed, lambda: NOW / SECOND + 60)
    clock.set(NOW)
    assert not clock.is_apart
    clock.set(NOW - SECOND)
    assert clock.is_apart


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_pauses_grow_up_to_five_minutes(fractions: list[float]) -> None:
    given_fractions = iter(fractions)
    backoff = Backoff(lambda low, high: low + (high - low) * next(given_fractions))
    last = 0.0
    for _ in fractions:
        pause = backoff.pause_after("away")
        assert 1 <= pause <= min(300, max(1, 3 * last))
        last = pause
    for refusal in ("revoked", "superseded", "fork", "not-enabled", "unimplemented"):
        assert backoff.pause_after(refusal) == LATER


def test_the_key_in_flight_stays_until_the_answer(clock: CoordinatorClock) -> None:
    held = WorkloadCertificates(identity(), lambda: make_credentials(NAMES), 0)
    key = held.key_in_flight()
    assert held.key_in_flight() is key
    assert held.until_renewal(clock) == 0
    held.store(renewed(identity(), OLD))
    assert held.key_in_flight() is not key
    assert held.until_renewal(clock) == 1800
    held.renew_now()
    assert held.until_due(clock) == 0
    key = held.key_in_flight()
    held.begin(identity())
    assert held.key_in_flight() is not key


def test_renewals_come_at_least_as_often_as_requested(clock: CoordinatorClock) -> None:
    held = WorkloadCertificates(identity(), lambda: make_credentials(NAMES), 60)
    held.store(renewed(identity(), OLD))
    assert held.until_renewal(clock) == 60
    held = WorkloadCertificates(identity(), lambda: make_credentials(NAMES), 3600)
    held.store(renewed(identity(), OLD))
    assert held.until_renewal(clock) == 1800


def test_a_certificate_of_a_new_root_is_shown_after_the_time_to_settle(
    clock: CoordinatorClock, elapsed: Elapsed
) -> None:
    held = WorkloadCertificates(identity(), lambda: make_credentials(NAMES), 0)
    first = identity()
    assert not held.store(renewed(first, OLD))
    assert held.for_files(clock, at_once=True) is first
    second, third = identity(NEW), identity(NEW)
    assert held.store(renewed(second, NEW, OLD, settle=120))
    assert held.for_files(clock, at_once=False) is first
    assert held.until_due(clock) == 120
    elapsed.seconds += 100
    held.store(renewed(third, NEW, OLD, now=NOW + 100 * SECOND))
    assert held.for_files(clock, at_once=False) is first
    elapsed.seconds += 20
    assert held.until_due(clock) == 0
    assert held.for_files(clock, at_once=False) is third
    assert held.until_written(clock) == float("inf")


def test_a_certificate_of_a_new_root_is_shown_at_once_after_the_end_of_trust(
    clock: CoordinatorClock,
) -> None:
    held = WorkloadCertificates(identity(), lambda: make_credentials(NAMES), 0)
    held.store(renewed(identity(), OLD))
    held.for_files(clock, at_once=True)
    second = identity(NEW)
    held.store(renewed(second, NEW, OLD, settle=120))
    held.trust(frozenset({NEW}))
    assert held.for_files(clock, at_once=False) is second


def test_a_restart_shows_the_newest_certificate(clock: CoordinatorClock) -> None:
    held = WorkloadCertificates(identity(), lambda: make_credentials(NAMES), 0)
    held.store(renewed(identity(), OLD))
    held.for_files(clock, at_once=True)
    second = identity(NEW)
    held.store(renewed(second, NEW, OLD, settle=120))
    assert held.for_files(clock, at_once=True) is second


def place(sequence: int, epoch: int = 1, chain: bytes = bytes(8)) -> wire.Place:
    return wire.Place(epoch=epoch, sequence=sequence, chain=chain)


@pytest.mark.parametrize(
    ("after", "refusal"),
    [
        (place(4), "unavailable"),
        (place(5, chain=b"\1" * 8), "fork"),
        (place(6, epoch=0), "fork"),
    ],
)
def test_an_answer_of_an_older_or_another_state_is_not_taken(
    after: wire.Place, refusal: str
) -> None:
    seen = Seen()
    assert seen.place() is None
    seen.record(place(5))
    with pytest.raises(ChannelError) as refused:
        seen.record(after)
    assert refused.value.refusal == refusal
    assert seen.place() == place(5)
    seen.record(place(5))
    seen.record(place(6, epoch=2))


KEY = Placeholder("PRIVATE", "PEM")
CERT = Placeholder("CERT", "PEM")


def test_contents_get_the_own_certificate_in_each_form() -> None:
    own = make_credentials(NAMES)
    pieces = (
        Secret(b"a "),
        Placeholder("CERT", "HEX"),
        Secret(b" "),
        Placeholder("PRIVATE", "BASE64"),
    )
    contents = PartialParameters(
        {"f": pieces, "raw": (Placeholder("CERT", "RAW"),)}, {"E": (CERT, KEY)}, ("web",)
    )
    filled = contents.filled(own)
    assert filled.files["f"].reveal().startswith(b"a " + own.certificate.hex().encode() + b" ")
    assert filled.files["raw"].reveal() == own.certificate
    env = filled.env["E"].reveal()
    assert env.count(b"-----BEGIN CERTIFICATE-----") == 1
    assert env.count(b"-----BEGIN PRIVATE KEY-----") == 1
    assert filled.argv == ("web",)


def test_certificates_are_replaced_after_their_keys_and_roots() -> None:
    files: dict[str, Pieces] = {
        "a.pem": (CERT,),
        "b.key": (KEY,),
        "both": (KEY, CERT),
        "public": (Placeholder("PUBLIC", "PEM"),),
        "roots": (Secret(b"roots"),),
    }
    assert PartialParameters(files, {}, ()).in_order() == [
        "roots",
        "b.key",
        "a.pem",
        "both",
        "public",
    ]


def test_omitted_parts_stay_and_an_unknown_part_is_refused() -> None:
    have = wire.Version(files=b"f", env=b"e", argv=b"a", certificate=b"c")
    before = PartialParameters({"f": (CERT,)}, {"E": (KEY,)}, ("web",))
    same = wire.FetchResponse(version=have)
    assert changed(before, have, same) == before
    other = wire.FetchResponse(version=wire.Version(files=b"g", env=b"e", argv=b"b"))
    after = changed(before, have, other)
    assert (after.files, after.env, after.argv) == ({}, {}, ())  # the certificate differs, too
    other.files["f"].piece.add(own=wire.Own.FromString(b"\x10\x09"))
    with pytest.raises(AnswerUnreadableError):
        changed(before, have, other)


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def secrets(**files: str) -> dict[str, Secret]:
    return {name: Secret(content.encode()) for name, content in files.items()}


def test_only_different_files_are_replaced_and_gone_files_are_removed(inside: Path) -> None:
    files = FileSet()
    assert files.replace(secrets(a="1", b="1"), ["a", "b"]) == 2
    before = (inside / "a").stat().st_ino
    assert files.replace(secrets(a="1", b="2"), ["a", "b"]) == 1
    assert ((inside / "a").stat().st_ino, (inside / "b").read_text()) == (before, "2")
    assert files.replace(secrets(b="2", c="3"), ["b", "c"]) == 2
    assert sorted(each.name for each in inside.iterdir()) == ["b", "c"]
    assert {each.stat().st_mode & 0o777 for each in inside.iterdir()} == {0o600}
    files.remove()
    assert list(inside.iterdir()) == []


@pytest.mark.parametrize("obstacle", ["folder", "link", "missing permission"])
def test_a_file_that_cannot_be_written_leaves_every_old_file(inside: Path, obstacle: str) -> None:
    files = FileSet()
    files.replace(secrets(a="1", z="1"), ["a", "z"])
    (inside / "z").unlink()
    if obstacle == "folder":
        (inside / "z").mkdir()
    elif obstacle == "link":
        (inside / "z").symlink_to("a")
    names = {"a": "2", "z": "2"}
    if obstacle == "missing permission":
        (inside / "file").write_text("")
        names["file/z"] = "2"
    with pytest.raises(LaunchRefusedError):
        files.replace(secrets(**names), sorted(names))
    assert (inside / "a").read_text() == "1"
    assert not list(inside.glob(".keyhouse-*"))


def test_a_folder_that_became_a_link_is_refused_until_it_is_a_folder(inside: Path) -> None:
    files = FileSet()
    (inside / "d").mkdir()
    files.replace(secrets(a="1", **{"d/b": "1"}), ["a", "d/b"])
    (inside / "d").rename(inside / "moved")
    (inside / "d").symlink_to("moved")
    with pytest.raises(LaunchRefusedError):
        files.replace(secrets(a="2", **{"d/b": "2"}), ["a", "d/b"])
    (inside / "d").unlink()
    assert files.replace(secrets(a="2", **{"d/b": "2"}), ["a", "d/b"]) == 2


def test_a_time_is_written_in_utc() -> None:
    assert utc(NOW + 999_999) == "2027-01-15T08:00:00Z"


def test_credentials_of_a_renewal_show_no_key() -> None:
    own = make_credentials(NAMES)
    assert isinstance(own, Credentials)
    assert own.key.reveal().hex() not in repr(own)
