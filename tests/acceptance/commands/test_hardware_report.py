"""The real `keyhouse doctor --hardware-report`, in simulation and with a stand-in for Gramine."""

import json
import os
import re
import socket
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from support.process.command import Ended, run
from support.samples.fixed_keys import unused_rsa_key

from keyhouse.cli.attest.package_info import SIZE
from keyhouse.cli.dev.deployment import trust_in
from keyhouse.cli.dev.folder import Folder
from keyhouse.cli.doctor.hardware.launches import environment
from keyhouse.cli.doctor.hardware.process import Launch
from keyhouse.cli.doctor.hardware.report import QuoteSection, Trial
from keyhouse.cli.doctor.hardware.trial import CoordinatorTrial
from keyhouse_simulation.parameters import Pck

pytestmark = pytest.mark.acceptance

GOLDEN: Final = Path(__file__).with_name("hardware_report.json")
COLLATERAL: Final = Path(__file__).parents[2] / "attestation" / "vectors"
_MILLISECONDS: Final = re.compile("_ms$")
_KIBIBYTES: Final = re.compile("_kib$")
_LONG_ENOUGH: Final = 4  # shorter names are part of words in each report


def normalised(value: Any, name: str = "") -> Any:
    """Return a report with its units in place of values that differ between runs."""
    if isinstance(value, dict):
        return {key: normalised(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [normalised(each, name) for each in value]
    if _MILLISECONDS.search(name) or _KIBIBYTES.search(name):
        assert type(value) is int, name
        assert value > 0, name
        return "milliseconds" if _MILLISECONDS.search(name) else "KiB"
    return value


def comparable(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report without values of the machine; those have to be texts."""
    found: dict[str, Any] = normalised(report)
    assert re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", found["date"])
    found["date"] = "day"
    for name in ("versions", "machine"):
        assert all(isinstance(each, str) for each in found[name].values())
        found[name] = sorted(found[name])
    for name in ("tcb_date", "collateral_issued", "collateral_expires"):
        assert re.fullmatch("[0-9T:-]{19}Z", found["quote"][name])
        found["quote"][name] = "time"
    return found


def values_of_this_machine() -> list[str]:
    """Return values that identify this machine or its user."""
    files = ("/etc/machine-id", "/proc/sys/kernel/random/boot_id")
    found = [Path(each).read_text("ascii").strip() for each in files if Path(each).exists()]
    found += [each.read_text("ascii").strip() for each in Path("/sys/class/net").glob("*/address")]
    found += re.findall(r"[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+", Path("/proc/net/fib_trie").read_text())
    found += [socket.gethostname(), socket.getfqdn(), str(Path.home()), sys.prefix]
    return [each for each in found if len(each) >= _LONG_ENOUGH]


def report_by(folder: Path, *words: str, **variables: str) -> tuple[Ended, Path]:
    """Return how the command ended, and the path of its report."""
    file = folder / "report.json"
    env = {"HOME": str(folder), "TMPDIR": str(folder), **variables}
    ended = run("doctor", "--hardware-report", str(file), *words, env=env, folder=folder)
    return ended, file


def test_a_report_in_simulation_has_every_field_and_nothing_of_this_machine(
    tmp_path: Path,
) -> None:
    settings = {
        "KEYHOUSE_DNS_NAMES": "vault.customer.example",
        "KEYHOUSE_STORE": "postgresql://user@db.customer.example/production",
        "KEYHOUSE_STARTUP_MANIFEST": str(tmp_path / "production.json"),
    }
    ended, file = report_by(tmp_path, "--platform", "simulation", **settings)

    assert ended.code == 0, ended.err
    assert "seal      passed\n" in ended.out
    assert "SIMULATED: says nothing about hardware" in ended.out
    assert ended.err.splitlines()[:2] == ["starting a coordinator ...", "verifying its quote ..."]
    content = file.read_text("utf-8")
    assert comparable(json.loads(content)) == json.loads(GOLDEN.read_bytes())
    assert file.stat().st_mode & 0o777 == 0o600

    ppid = Pck().ppid
    values = [*values_of_this_machine(), str(tmp_path), ppid.hex(), ppid.decode("ascii")]
    values += ["customer.example", "127.0.0.1", "localhost", "BEGIN ", "PRIVATE KEY"]
    assert not [each for each in values if each in content]
    # No state and no log of the trial stays behind.
    assert [each.name for each in tmp_path.iterdir() if each != file] == []


def test_an_existing_report_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("mine")
    ended, file = report_by(tmp_path, "--platform", "simulation")

    assert (ended.code, ended.out) == (1, "")
    assert "already exists" in ended.err
    assert file.read_text() == "mine"


def enclave_at(folder: Path, state: Path) -> list[str]:
    """Write a signed enclave whose state directory is ``state``; return words that name it."""
    folder.mkdir()
    (folder / "keyhouse.manifest.sgx").write_text(
        'loader.argv = ["/python3", "-m", "keyhouse.server", "--data-dir", "/keyhouse-data"]\n'
        f'fs.mounts = [{{ path = "/keyhouse-data", uri = "file:{state}" }}]\n'
        'sgx.enclave_size = "1G"\nsgx.max_threads = 32\nsgx.edmm_enable = false\n'
    )
    key = unused_rsa_key(3072, exponent=3)
    raw = bytearray(SIZE)
    raw[:16] = bytes.fromhex("06000000e10000000000010000000000")
    raw[24:40] = bytes.fromhex("01010000600000006000000001000000")
    raw[960:992] = bytes(range(32))
    signed = bytes(raw[:128] + raw[900:1028])
    raw[128:512] = key.public_key().public_numbers().n.to_bytes(384, "little")
    raw[512:516] = (3).to_bytes(4, "little")
    raw[516:900] = key.sign(signed, padding.PKCS1v15(), hashes.SHA256())[::-1]
    (folder / "keyhouse.sig").write_bytes(raw)
    bundle = COLLATERAL / "sgx_quote_collateral.json"
    return ["--enclave", str(folder), "--collateral", str(bundle)]


def path_with(folder: Path, state: Path, before: str = "true") -> str:
    """Return a PATH with a ``gramine-sgx`` that starts a SIMULATED coordinator on ``state``.

    ``before``: a command of the shell before each start.
    """
    program = folder / "gramine-sgx"
    words = f"-I -B -m keyhouse.server --platform simulation --data-dir {state}"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = keyhouse ] && {before} && exec {sys.executable} {words}\n'
    )
    program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def tried_in(folder: Path, before: str = "true") -> tuple[QuoteSection, Trial]:
    """Return the results of a trial with a program of its own and a state directory elsewhere."""
    elsewhere, scratch = Folder(folder / "elsewhere"), folder / "scratch"
    for each in (elsewhere.path, elsewhere.state, scratch):
        each.mkdir(mode=0o700)
    launch = Launch(
        platform="gramine",
        words=("gramine-sgx", "keyhouse"),
        state=elsewhere.state,
        folder=elsewhere.path,
        environment=environment() | {"PATH": path_with(folder, elsewhere.state, before)},
        trust=lambda: trust_in(elsewhere),
    )
    found = CoordinatorTrial(launch, scratch).run()
    assert list(elsewhere.state.iterdir()) == []
    return found


def test_a_started_program_is_tried_as_a_whole(tmp_path: Path) -> None:
    quote, trial = tried_in(tmp_path)

    parts = (quote, trial.seal, trial.start, trial.restart, trial.recovery, trial.memory)
    assert [each.outcome for each in parts] == ["passed"] * 6
    assert trial.platform == "gramine"


def test_a_machine_that_loses_its_seal_fails_there_and_recovers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = f"rm -f {tmp_path}/elsewhere/data/sealed_key"
    _, trial = tried_in(tmp_path, lost)

    assert (trial.start.outcome, trial.restart.outcome) == ("passed", "passed")
    assert (trial.seal.outcome, trial.seal.reason) == ("failed", "step-failed")
    assert [each.outcome for each in trial.seal.policies] == ["failed", "failed"]
    assert trial.recovery.outcome == "passed"
    assert "failed: the coordinator has the status 1" in capsys.readouterr().err


def test_an_enclave_without_a_true_quote_starts_and_proves_nothing(tmp_path: Path) -> None:
    state, programs = tmp_path / "state", tmp_path / "bin"
    state.mkdir(mode=0o700)
    programs.mkdir()
    words = enclave_at(tmp_path / "enclave", state)

    ended, file = report_by(tmp_path, *words, "--json", PATH=path_with(programs, state))

    assert ended.code == 1, ended.err
    told = json.loads(ended.out)
    assert (told["ok"], told["platform"], told["report"]) == (False, "gramine", str(file))
    assert (told["sections"]["start"], told["sections"]["quote"]) == ("passed", "failed")
    report = json.loads(file.read_bytes())
    trial = report["coordinator"]
    assert (report["platform"], report["simulated"], report["ok"]) == ("gramine", False, False)
    assert (report["quote"]["outcome"], report["quote"]["verified"]) == ("failed", False)
    assert report["quote"]["reason"]
    settings = {"enclave_size": "1G", "max_threads": 32, "edmm": False}
    assert report["enclave"] == settings
    assert (trial["platform"], trial["start"]["outcome"]) == ("gramine", "passed")
    assert trial["start"]["serving_ms"] > 0
    assert trial["start"]["first_answer_ms"] is None
    parts = ("seal", "restart", "recovery", "memory")
    assert {trial[each]["outcome"] for each in parts} == {"skipped"}
    assert "next step: " in ended.err
    assert list(state.iterdir()) == []  # ready for another trial


def test_an_enclave_with_a_state_is_refused_and_its_state_stays(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "journal.db").write_bytes(b"a deployment")

    ended, file = report_by(tmp_path, *enclave_at(tmp_path / "enclave", state))

    assert (ended.code, ended.out) == (1, "")
    assert "is not empty" in ended.err
    assert (state / "journal.db").read_bytes() == b"a deployment"
    assert not file.exists()


def test_a_missing_program_is_a_failed_start_with_a_next_step(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    words = enclave_at(tmp_path / "enclave", state)

    ended, file = report_by(tmp_path, *words, PATH=str(tmp_path / "bin"))

    assert ended.code == 1
    assert "gramine-sgx: no such file" in ended.err
    start = json.loads(file.read_bytes())["coordinator"]["start"]
    assert (start["outcome"], start["reason"]) == ("failed", "program-unusable")


def test_a_machine_without_hardware_is_told_its_choices(tmp_path: Path) -> None:
    ended, file = report_by(tmp_path)

    assert (ended.code, ended.out) == (1, "")
    assert "--enclave DIR" in ended.err
    assert not file.exists()
