"""A throw-away coordinator: ready with commands that can be pasted, and gone without a trace."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.process.command import run
from support.process.server import free_port
from support.process.start import Started, start
from support.samples.deployment import manifest

from keyhouse.base.errors import ConflictError
from keyhouse.cli.dev.deployment import with_user
from keyhouse.client.identity import make_user
from keyhouse.manifest import check, decode

pytestmark = pytest.mark.acceptance


@contextmanager
def dev(folder: Path, *words: str) -> Iterator[tuple[Started, dict[str, Any]]]:
    """Run `keyhouse dev` with its temporary files in ``folder``; yield what it says when ready."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as said, (folder.parent / "errors").open("wb") as errors:
        with os.fdopen(writing, "wb") as output:
            process = start(
                ("dev", "--json", *words),
                output=output,
                errors=errors,
                environment={"TMPDIR": str(folder)},
                cold=True,
            )
        try:
            yield process, json.loads(said.readline() or b"{}")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def paste(command: str, folder: Path) -> str:
    """Return what ``command`` prints in a shell elsewhere that knows no ``keyhouse``."""
    ours = str(Path(sys.executable).parent)
    others = [each for each in os.environ["PATH"].split(os.pathsep) if each != ours]
    environment = {"PATH": os.pathsep.join(others), "HOME": str(folder)}
    done = subprocess.run(
        ["bash", "-ec", command],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def coordinator_of(process: Started) -> int:
    """Return the id of the coordinator below ``process``."""
    return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text("ascii"))


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """A directory for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


def test_every_next_step_works_as_printed_and_ctrl_c_leaves_nothing(
    tmp_path: Path, temporary: Path
) -> None:
    with dev(temporary) as (process, ready):
        printed = {step["what"]: paste(step["command"], tmp_path) for step in ready["next"]}
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0

    assert "ready to accept a manifest" in printed["see its state"]
    assert "aGVsbG8=" in printed["read it back"]
    assert printed["become a workload"] == "a token of 32 digits\n"
    assert list(temporary.iterdir()) == []
    assert sorted(each.name for each in tmp_path.iterdir()) == ["errors", "temporary"]
    assert (tmp_path / "errors").read_text() == "ended; nothing is left\n"
    host, _, port = ready["clientApi"].partition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


def test_a_manifest_of_ones_own_is_set_at_once_with_a_user_who_has_its_secrets(
    tmp_path: Path, temporary: Path
) -> None:
    file, port = tmp_path / "manifest.json", str(free_port())
    file.write_bytes(manifest())
    with dev(temporary, "--manifest", str(file), "--client-port", port) as (process, ready):
        assert ready["clientApi"] == f"127.0.0.1:{port}"
        trust = ("--attestation", ready["attestation"], "--simulation-root")
        told = (ready["clientApi"], *trust, ready["simulationRoot"], "--memory", ready["memory"])
        who = ("--cert", ready["certificate"], "--key", ready["key"])
        assert run("manifest", "verify", ready["fingerprint"], *told).code == 0
        assert "shared" in run("secret", "get", "shared", *told, *who).out
        os.kill(coordinator_of(process), signal.SIGKILL)
        assert process.wait(30) == 1

    assert list(temporary.iterdir()) == []
    told_last = json.loads((tmp_path / "errors").read_text())["error"]["message"]
    assert told_last == "the coordinator has ended by itself (SIGKILL)"


def test_a_coordinator_does_not_outlive_a_command_that_was_killed(temporary: Path) -> None:
    with dev(temporary) as (process, _):
        coordinator = os.pidfd_open(coordinator_of(process))
        process.kill()
        process.wait(30)
        ended = select.poll()
        ended.register(coordinator, select.POLLIN)
        assert ended.poll(30_000)
        os.close(coordinator)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--manifest", "none.json"), "error: cannot read none.json"),
        (("--client-port", "taken"), "error: "),
        (("--manifest", "wrong.json"), "error: the manifest: 1 problem"),
    ],
    ids=["no file", "port in use", "no manifest"],
)
def test_what_cannot_be_started_leaves_nothing_either(
    tmp_path: Path, temporary: Path, words: tuple[str, str], problem: str
) -> None:
    (tmp_path / "wrong.json").write_text("{")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = [str(taken.getsockname()[1]) if word == "taken" else word for word in words]
        ended = run("dev", *given, env={"TMPDIR": str(temporary)}, folder=tmp_path)

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(problem)
    assert list(temporary.iterdir()) == []


def test_the_user_is_added_whatever_case_the_sections_are_written_in() -> None:
    content = json.loads(manifest())
    content["ROLES"], content["users"] = content.pop("Roles"), content.pop("Users")

    made = with_user(json.dumps(content).encode(), make_user("dev").certificate.decode())

    assert set(decode(made).users) == {"dev", "nobody", "reader", "writer"}
    assert check(made, now=datetime.now(UTC)).manifest.users["dev"].roles == (
        "dev-reads",
        "dev-writes",
    )


def test_a_user_of_that_name_is_not_replaced() -> None:
    certificate = make_user("dev").certificate.decode()

    with pytest.raises(ConflictError, match="--no-user"):
        with_user(with_user(manifest(), certificate), certificate)
