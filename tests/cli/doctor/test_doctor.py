"""How the doctor judges what it sees, and what it says about files; nothing is running."""

import json
import resource
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.process.command import Ended, run
from support.samples.deployment import user

from keyhouse.cli.doctor.files import remembered_findings, user_findings
from keyhouse.cli.doctor.finding import (
    CheckResult,
    check_clock,
    check_expiry,
    check_mode,
    check_start,
)
from keyhouse.cli.doctor.machine import check_descriptors, check_locked_memory, check_packed_code
from keyhouse.cli.doctor.network import check_state
from keyhouse.client.identity import make_user

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("days", "level"), [(-1, "problem"), (0, "problem"), (29, "warning"), (31, "ok")]
)
def test_a_certificate_is_judged_by_the_days_it_has_left(days: int, level: str) -> None:
    assert check_expiry("c", NOW + timedelta(days=days), NOW, "renew").level == level


def test_a_certificate_of_the_future_is_a_problem() -> None:
    assert check_start("c", NOW, NOW) is None
    early = check_start("c", NOW + timedelta(seconds=1), NOW)
    assert early is not None
    assert early.level == "problem"


@pytest.mark.parametrize(
    ("seconds", "level", "words"),
    [
        (0, "ok", "agrees with the PCCS"),
        (-5, "ok", "agrees with the PCCS"),
        (20, "warning", "20 s ahead of the PCCS"),
        (-61, "problem", "61 s behind the PCCS"),
    ],
)
def test_a_clock_is_judged_by_another(seconds: int, level: str, words: str) -> None:
    found = check_clock("clock", NOW + timedelta(seconds=seconds), NOW, "the PCCS")

    assert (found.level, found.found) == (level, words)


@pytest.mark.parametrize(
    ("mode", "mine", "level"),
    [(0o600, True, "ok"), (0o400, True, "ok"), (0o640, True, "problem"), (0o600, False, "warning")],
)
def test_a_key_file_is_its_owners_alone(mode: int, level: str, *, mine: bool) -> None:
    assert check_mode("key", mode, mine=mine).level == level


def test_missing_packed_code_is_told_with_the_command_that_makes_it(tmp_path: Path) -> None:
    serve, launch = tmp_path / "serve.packed", tmp_path / "run.packed"
    for made in ((), (serve,)):
        for file in made:
            file.touch()
        found = check_packed_code((serve, launch))
        assert (found.level, found.found.partition(":")[0]) == ("ok", "missing")
        assert found.fix.endswith(f"{sys.executable} -I -m keyhouse.base.process.pack_code")
    launch.touch()
    assert check_packed_code((serve, launch)) == CheckResult("packed code", "ok", "present")


def test_limits_are_judged_for_a_coordinator() -> None:
    assert check_descriptors(1024).level == "warning"
    assert check_descriptors(65536).level == check_descriptors(resource.RLIM_INFINITY).level == "ok"
    assert check_locked_memory(64 << 20).level == "warning"
    assert check_locked_memory(resource.RLIM_INFINITY).level == "ok"


def levels(findings: list[CheckResult]) -> list[tuple[str, str]]:
    return [(each.check, each.level) for each in findings]


def looked_at(cert: Path | None, key: Path | None) -> list[CheckResult]:
    return list(user_findings(cert, key, datetime.now(UTC)))


def test_a_users_files_that_are_as_they_should_be(tmp_path: Path) -> None:
    cert, key = tmp_path / "alice.pem", tmp_path / "alice.key"
    cert.write_bytes(user("alice").pem)
    key.write_bytes(user("alice").key_pem)
    key.chmod(0o600)

    assert levels(looked_at(cert, key)) == [
        ("user certificate", "ok"),
        ("user key", "ok"),
        ("user key", "ok"),
    ]


def test_a_users_files_that_are_wrong_are_told_what_is(tmp_path: Path) -> None:
    cert, key = tmp_path / "dev.pem", tmp_path / "alice.key"
    cert.write_bytes(make_user("dev").certificate)
    key.write_bytes(user("alice").key_pem)
    key.chmod(0o644)

    found = looked_at(cert, key)
    assert levels(found)[1:] == [("user key", "problem"), ("user key", "problem")]
    assert [each.found for each in found[1:]] == [
        "other users may open it (0644)",
        "belongs to another certificate",
    ]
    assert [each.found for each in looked_at(key, cert)] == [
        f"{key} is not a certificate",
        f"{cert} is not a usable private key",
    ]
    missing = looked_at(tmp_path / "none", tmp_path / "none")
    assert [each.level for each in missing] == ["problem", "problem"]


def test_a_users_key_of_a_kind_that_nobody_takes_is_told(tmp_path: Path) -> None:
    cert, key, other = tmp_path / "odd.pem", tmp_path / "odd.key", tmp_path / "alice.key"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:brainpoolP160r1 -nodes -subj /CN=odd"
    made = ["openssl", *words.split(), "-keyout", str(key), "-out", str(cert)]
    subprocess.run(made, check=True, capture_output=True)
    other.write_bytes(user("alice").key_pem)
    other.chmod(0o600)

    assert [each.found for each in looked_at(None, key)] == [f"{key} is not a usable private key"]
    assert looked_at(cert, other)[-1].found == "has a key of an unusable type"


def test_a_file_of_contexts_that_cannot_be_looked_at_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").touch(0o600)
    files = {"none": tmp_path / "none", "below a file": tmp_path / "file" / "x", "no place": None}
    assert list(remembered_findings(files)) == []

    (found,) = remembered_findings({"contexts": tmp_path / ("a" * 300)})
    assert (found.level, "file name too long" in found.found) == ("problem", True)
    (found,) = remembered_findings({"contexts": tmp_path / "file"})
    assert found.level == "ok"


def doctor(*words: str, folder: Path) -> Ended:
    """Return how `keyhouse doctor --json` ended."""
    return run("doctor", "--json", *words, env={"HOME": str(folder)}, folder=folder)


def test_a_machine_alone_is_looked_at_and_what_is_not_known_is_said(tmp_path: Path) -> None:
    ended = doctor(folder=tmp_path)

    found = {each["check"]: each["level"] for each in json.loads(ended.out)["findings"]}
    assert (ended.code, ended.err) == (0, "")
    assert {found["keyhouse"], found["python"]} == {"ok"}
    assert {
        found[each] for each in ("coordinator", "PCCS", "state directory", "user certificate")
    } == {"skipped"}


def test_a_state_directory_that_others_can_open_is_a_problem(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(0o755)

    ended = doctor("--data-dir", str(folder), folder=tmp_path)

    assert ended.code == 1
    told = json.loads(ended.out)
    assert told["ok"] is False
    problems = [each for each in told["findings"] if each["level"] == "problem"]
    assert [each["check"] for each in problems] == ["state directory"]
    assert problems[0]["fix"]


def test_people_are_told_how_to_fix_each_problem(tmp_path: Path) -> None:
    key = tmp_path / "alice.key"
    key.write_bytes(user("alice").key_pem)
    key.chmod(0o666)

    ended = run("doctor", "--key", str(key), env={"HOME": str(tmp_path)}, folder=tmp_path)

    assert (ended.code, ended.err) == (1, "1 problem\n")
    assert (
        "problem  user key: other users may open it (0666)\n         fix: chmod 600 FILE"
        in ended.out
    )
    assert "PRIVATE KEY" not in ended.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--store-standbys", "1"), "--store-standbys has no effect here"),
        (("--store-password-file", "password"), "--store-password-file has no effect here"),
        (("--store", "postgresql://u@h/d", "--store-standbys", "100"), "100 is too large"),
    ],
)
def test_words_about_a_database_without_one_are_refused(words: tuple[str, ...], told: str) -> None:
    ended = run("doctor", *words)
    assert (ended.code, told in ended.err) == (1, True)
    assert not ended.out


@pytest.mark.parametrize(
    ("code", "message", "level", "fix"),
    [
        (3, "running: workloads that the manifest names are accepted", "ok", ""),
        (3, "held: rolled back", "warning", "newest state"),
        (2, "ready to accept a manifest", "warning", "keyhouse manifest set"),
        (1, "recovery mode", "warning", "keyhouse recover"),
    ],
)
def test_a_coordinator_that_serves_nothing_is_not_well(
    code: int, message: str, level: str, fix: str
) -> None:
    found = check_state(code, message)

    assert (found.level, found.found) == (level, f"{code}  {message}")
    assert fix in found.fix
