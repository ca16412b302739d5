"""The units are sound by systemd's own judgement; a coordinator lives within what they allow."""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from support.distributions import TABLE
from support.process.server import PATIENCE, Server
from support.process.start import KEYHOUSE
from support.samples.deployment import manifest, user

from keyhouse.server.process.settings import SETTINGS, read_settings

_UNITS: Final = Path(__file__).parent.parent.parent / "deploy" / "systemd"
_PYTHON: Final = "/opt/keyhouse/bin/python"
_COMMANDS: Final = "/opt/keyhouse-commands/bin/python"
_PAGE: Final = _UNITS.parents[1] / "docs" / "how-to" / "deploy-with-systemd.md"
_LEAST_SAFE: Final = "20"  # systemd's exposure level, times ten: "OK" ends at 5.0

# Lets a process have no memory that is first written and then executed, as MemoryDenyWriteExecute.
_DENY_WRITE_EXECUTE: Final = """
import ctypes, os, sys
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0): sys.exit("no PR_SET_MDWE")
os.execv(sys.argv[1], sys.argv[1:])
"""


def needs(tool: str) -> str:
    """Return where ``tool`` is; where it is missing the test is skipped, and in CI fails."""
    found = shutil.which(tool)
    if found is None:
        assert not os.environ.get("CI"), f"{tool} is not installed"
        pytest.skip(f"{tool} is not installed")
    return found


def lines(unit: str, name: str) -> list[str]:
    """Return the values that a unit gives a setting, in order."""
    text = (_UNITS / unit).read_text(encoding="utf-8")
    return re.findall(rf"^{name}=(.*)$", text, re.MULTILINE)


def analyze(*words: str) -> str:
    done = subprocess.run(
        [needs("systemd-analyze"), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    units = []
    for path in sorted(_UNITS.iterdir()):
        units.append(tmp_path / path.name)
        text = path.read_text(encoding="utf-8").replace(_PYTHON, sys.executable)
        text = text.replace(_COMMANDS, sys.executable)
        units[-1].write_text(text, encoding="utf-8")

    assert analyze("verify", "--man=no", *map(str, units)) == ""
    for unit in units:
        if unit.suffix == ".service":
            analyze("security", "--offline=true", f"--threshold={_LEAST_SAFE}", str(unit))


def test_the_command_of_the_unit_is_taken_and_the_environment_decides_on_no_trust() -> None:
    (command,) = lines("keyhouse.service", "ExecStart")
    words = shlex.split(command)
    assert words[:5] == [_PYTHON, "-I", "-B", "-m", "keyhouse.server"]
    settings = read_settings(words[5:], {})
    assert str(settings.data_dir).startswith("/var/lib/keyhouse/")
    named = set(re.findall(r"KEYHOUSE_\w+", (_UNITS / "keyhouse.service").read_text("utf-8")))
    host = {name for each in SETTINGS if each.kind == "host" for name in each.variables}
    assert named <= host
    (backup,) = lines("keyhouse-backup.service", "ExecStart")
    assert f"backup {settings.data_dir} " in backup


def test_each_unit_runs_in_an_environment_with_the_lock_of_its_distribution() -> None:
    installed = {}
    for environment, distribution, lock in re.findall(
        r"finish\.py (\S+) (\S+) (\S+)$", _PAGE.read_text(encoding="utf-8"), re.MULTILINE
    ):
        python = f"{environment}/bin/python"
        installed[python] = distribution
        assert TABLE.rows[distribution]["lock"] == Path(lock).stem
        for step in (
            f"python3 -m venv {environment}\n",
            f"{python} -m pip install --require-hashes --no-deps --only-binary :all: -r {lock}\n",
            f"{python} -m pip install --no-index --find-links build/wheels {distribution}\n",
        ):
            assert step in _PAGE.read_text(encoding="utf-8")

    for unit in ("keyhouse.service", "keyhouse-backup.service"):
        (command,) = lines(unit, "ExecStart")
        found = re.search(r"(/opt/\S+/bin/python) -I -B -m (\S+)", command)
        assert found is not None
        assert installed[found[1]] == TABLE.owner(found[2])


def allowed() -> set[str]:
    """Return the system calls that the coordinator's unit allows."""
    text = analyze("syscall-filter", "--no-pager")
    members: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("@"):
            members[line.strip()] = []
        elif line.startswith("    ") and not line.strip().startswith("#") and members:
            members[list(members)[-1]].append(line.strip())

    def calls(word: str) -> set[str]:
        if not word.startswith("@"):
            return {word}
        return set().union(*(calls(each) for each in members[word]))

    found: set[str] = set()
    for value in lines("keyhouse.service", "SystemCallFilter"):
        named = set().union(*(calls(word) for word in value.removeprefix("~").split()))
        found = found - named if value.startswith("~") else found | named
    return found


@pytest.mark.acceptance
@pytest.mark.parametrize("abstract", [False, True])
def test_a_service_manager_is_told_when_requests_are_answered(
    tmp_path: Path, *, abstract: bool
) -> None:
    address = f"\0{tmp_path}" if abstract else str(tmp_path / "notify")
    named = {"NOTIFY_SOCKET": address.replace("\0", "@")}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(PATIENCE)
        server = Server(tmp_path / "data", environment=named)

        with server, server.client() as client:
            told = manager.recv(100)
            assert client.get("/api/v2/status").status == 200

    assert told == b"READY=1"
    assert lines("keyhouse.service", "Type") == ["notify"]
    with server, server.client() as client:  # the manager is gone, which stops nothing
        assert client.get("/api/v2/status").status == 200
    assert "the service manager did not receive" in server.log.read_text()


@pytest.mark.acceptance
def test_a_coordinator_needs_no_more_than_the_unit_allows(tmp_path: Path) -> None:
    needs("systemd-analyze")
    trace = tmp_path / "trace"
    strace = (needs("strace"), "-D", "-f", "-qq", "-o", str(trace))
    server = Server(tmp_path / "data", wrapper=strace)

    with server, server.client() as client, server.client(user("writer")) as writer:
        assert client.set_manifest(manifest()).status == 200
        assert writer.upload({"key0": bytes(16)}).status == 200
        assert client.get("/api/v2/quote").status == 200

        if lines("keyhouse-backup.service", "MemoryDenyWriteExecute") == ["yes"]:
            deny = [sys.executable, "-c", _DENY_WRITE_EXECUTE, KEYHOUSE]
            backup = [*deny, "backup", str(server.data), str(tmp_path / "backup")]
            subprocess.run(backup, check=True, env={}, capture_output=True)

    calls = set(re.findall(r"^\d+ +([a-z]\w+)\(", trace.read_text(errors="replace"), re.MULTILINE))
    assert {"fdatasync", "listen"} <= calls
    as_root = (
        {"fchown"} if os.geteuid() == 0 else set()
    )  # SQLite's, which the service's user has not
    assert calls - as_root <= allowed(), sorted(calls - allowed())
