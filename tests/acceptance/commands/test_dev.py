"""A development coordinator: ready with commands that can be pasted, and telling what happens."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

import pytest
from support.process.command import run
from support.process.dev import dev
from support.process.server import PATIENCE
from support.process.start import KEYHOUSE, Started, start
from support.samples.deployment import manifest

from keyhouse.base.errors import ConflictError
from keyhouse.cli.dev.coordinator import Places, coordinator_at
from keyhouse.cli.dev.deployment import with_user
from keyhouse.cli.dev.folder import open_folder
from keyhouse.client.identity import make_user
from keyhouse.manifest import decode
from keyhouse.manifest.check import check
from keyhouse.wire.ports import CLIENT_API_PORT, WORKLOAD_API_PORT

pytestmark = pytest.mark.acceptance

_ANY_PORTS: Final = ("--client-port", "0", "--workload-port", "0")
_FORBIDDEN: Final = 'user "dev" has no permission ReadSecret on: "nothing"'
_UUID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def paste(command: str, folder: Path) -> str:
    """Return what ``command`` prints in a shell that knows no ``keyhouse`` but what it is told."""
    ours = str(Path(sys.executable).parent)
    others = [each for each in os.environ["PATH"].split(os.pathsep) if each != ours]
    environment = {"PATH": os.pathsep.join(others), "HOME": str(folder)}
    done = subprocess.run(
        ["bash", "-ec", f"shopt -s expand_aliases\n{command}"],
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


def contexts(folder: Path) -> str:
    """Return the file of contexts below ``folder``."""
    return (folder / ".config/keyhouse/contexts.toml").read_text("utf-8")


def test_every_next_step_works_as_printed_and_the_next_start_continues(tmp_path: Path) -> None:
    with dev(tmp_path) as (process, ready):
        first = ready["first"]
        assert first == f'alias keyhouse="{KEYHOUSE}"'
        printed = {
            step["what"]: paste(f"{first}\n{step['command']}", tmp_path) for step in ready["next"]
        }
        second = run("dev", env={"HOME": str(tmp_path)}, folder=tmp_path)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0

    assert (
        "running: workloads that the manifest"
        in printed["verify the coordinator, and print its state"]
    )
    assert "hello" in printed["read a secret, as dev"]
    assert printed["join as a workload"] == "a token of 32 digits\n"
    assert (second.code, "a coordinator already runs in keyhouse-dev" in second.err) == (1, True)
    assert (tmp_path / "errors").read_text() == "ended\n"
    assert contexts(tmp_path) == "\n"
    host, _, port = ready["clientApi"].partition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))

    with dev(tmp_path) as (_, again):
        assert again["fingerprint"] == ready["fingerprint"]
        steps = {step["what"]: step["command"] for step in again["next"]}
        assert "value        hi" in paste(f"{first}\n{steps['read a secret, as dev']}", tmp_path)


def refusal_of(folder: Path) -> str:
    """Return the error of a development coordinator in ``folder`` that must not start."""
    ended = run("dev", *_ANY_PORTS, env={"HOME": str(folder)}, folder=folder)
    assert ended.code == 1
    return ended.err


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    planted = tmp_path / "keyhouse-dev"
    planted.mkdir()
    for mode in (0o770, 0o777, 0o1777):
        planted.chmod(mode)
        assert f"keyhouse-dev has mode {mode:04o}, so other users" in refusal_of(tmp_path)
    assert [*planted.iterdir()] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    planted = tmp_path / "keyhouse-dev"
    planted.mkdir(mode=0o755)
    made = make_user("dev")
    (planted / "dev.pem").write_bytes(made.certificate)
    (planted / "dev.key").write_bytes(made.key.reveal())
    os.chown(planted, 65534, 65534)
    assert "keyhouse-dev belongs to the user 65534, but it must belong to 0" in refusal_of(tmp_path)


def test_no_link_is_followed_to_the_folder_or_to_the_log_in_it(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "keyhouse-dev").symlink_to("elsewhere")
    assert "cannot use the folder keyhouse-dev: not a directory" in refusal_of(tmp_path)

    (tmp_path / "keyhouse-dev").unlink()
    (tmp_path / "keyhouse-dev").mkdir(mode=0o700)
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "keyhouse-dev" / "coordinator.log").symlink_to(precious)
    assert "cannot write keyhouse-dev/coordinator.log" in refusal_of(tmp_path)
    assert precious.read_text() == "precious"


def test_context_of_another_deployment_is_neither_replaced_nor_left(tmp_path: Path) -> None:
    others = ("context", "add", "dev", "--address", "keyhouse.example.com:4433")
    assert run(*others, env={"HOME": str(tmp_path)}).code == 0
    before = contexts(tmp_path)

    with dev(tmp_path, "--ephemeral") as (_, ready):
        assert ready["first"].endswith("; export KEYHOUSE_CONTEXT=dev-2")
        paste(f"{ready['first']}\n{ready['next'][0]['command']}", tmp_path)

    assert contexts(tmp_path) == before
    assert not list(tmp_path.glob("keyhouse-dev*"))


def test_a_manifest_of_ones_own_is_set_at_once_with_a_user_who_has_its_secrets(
    tmp_path: Path,
) -> None:
    file, other = tmp_path / "manifest.json", tmp_path / "other.json"
    file.write_bytes(manifest())
    other.write_bytes(manifest().replace(b"nobody", b"anybody"))
    env = {"HOME": str(tmp_path)}
    with dev(tmp_path, "--manifest", str(file)) as (process, ready):
        assert run("manifest", "verify", ready["fingerprint"], env=env).code == 0
        assert "shared" in run("secret", "get", "shared", env=env).out
        os.kill(coordinator_of(process), signal.SIGKILL)
        assert process.wait(PATIENCE) == 1

    told_last = json.loads((tmp_path / "errors").read_text())["error"]["message"]
    assert told_last == "the coordinator ended by itself (SIGKILL)"
    refused = run("dev", "--manifest", str(other), *_ANY_PORTS, env=env, folder=tmp_path)
    assert (refused.code, refused.out) == (1, "")
    assert "has a different manifest in force" in refused.err


def test_a_coordinator_does_not_outlive_a_command_that_was_killed(tmp_path: Path) -> None:
    with dev(tmp_path) as (process, _):
        coordinator = os.pidfd_open(coordinator_of(process))
        process.kill()
        process.wait(PATIENCE)
        ended = select.poll()
        ended.register(coordinator, select.POLLIN)
        assert ended.poll(30_000)
        os.close(coordinator)


@contextmanager
def screen_of(folder: Path) -> Iterator[tuple[Started, IO[str]]]:
    """Run `keyhouse dev` on a terminal, where the usual ports are in use; yield what it shows."""
    ours, theirs = os.openpty()
    with ExitStack() as taken, os.fdopen(ours, encoding="utf-8") as screen:
        for port in (CLIENT_API_PORT, WORKLOAD_API_PORT):
            with suppress(OSError):  # then someone else has it
                taken.enter_context(socket.create_server(("127.0.0.1", port)))
        with os.fdopen(theirs, "wb") as terminal:
            process = start(
                ("dev",),
                output=terminal,
                errors=terminal,
                environment={"HOME": str(folder), "TERM": "xterm", "COLUMNS": "200"},
                folder=folder,
                cold=True,
            )
        try:
            yield process, screen
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


def test_its_terminal_tells_what_happens_in_colour(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    with screen_of(tmp_path) as (process, screen):
        ready = "".join(iter(screen.readline, "Ctrl-C ends the coordinator. Events:\n"))
        run("secret", "get", "greeting", "token", env=env)
        run("secret", "get", "nothing", env=env)
        first = next(line for line in ready.splitlines() if line.startswith("alias "))
        paste(f"{first}\n{ready.partition('# join as a workload')[2]}", tmp_path)
        lines: list[str] = []
        while "joined" not in "".join(lines):
            lines.append(screen.readline())
        process.send_signal(signal.SIGINT)

    assert "note: port 4433 is in use: the Client API has another port\n" in ready
    assert "note: port 2001 is in use: the workload API has another port\n" in ready
    told = [line.split(maxsplit=1)[1] for line in lines if line.strip()]
    assert [_UUID.sub("UUID", line) for line in told] == [
        "\x1b[33mchanged  \x1b[0m Initial manifest set\n",
        "\x1b[33mchanged  \x1b[0m Secret set  user=dev  secret=greeting  type=plain\n",
        "\x1b[36mread     \x1b[0m greeting, token  by dev\n",
        f"\x1b[31mrefused  \x1b[0m GET /api/v2/secrets  by dev: {_FORBIDDEN}\n",
        "\x1b[32mjoined   \x1b[0m web  UUID\n",
    ]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--manifest", "none.json"), "error: cannot read none.json"),
        (("--client-port", "taken"), "error: "),
        (("--manifest", "wrong.json"), "error: wrong.json"),
        (("--folder", "wrong.json"), "error: cannot use the folder wrong.json: "),
        (("--listen", "192.0.2.1"), "error: cannot listen at 192.0.2.1: "),
        (("--listen", "not an address"), "error: cannot listen at not an address: not an"),
        (("--no-user", "--ephemeral"), "error: --no-user has no effect here"),
        (("--folder", "x", "--ephemeral"), "error: --folder has no effect with --ephemeral"),
    ],
    ids=[
        "no file",
        "port in use",
        "no manifest",
        "no folder",
        "another machine",
        "no address",
        "no sample",
        "kept and not kept",
    ],
)
def test_what_cannot_be_started_leaves_no_context(
    tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    (tmp_path / "wrong.json").write_text("{")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = [str(taken.getsockname()[1]) if word == "taken" else word for word in words]
        ended = run("dev", *given, env={"HOME": str(tmp_path)}, folder=tmp_path)

    assert (ended.code != 0, ended.out) == (True, "")
    assert ended.err.startswith(problem)
    assert not (tmp_path / ".config").exists()


def test_a_port_that_is_taken_after_it_was_found_is_replaced(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        late = Places("127.0.0.1", taken.getsockname()[1], 0)
        found = iter([late, Places("127.0.0.1", 0, 0)])
        with (
            open_folder(tmp_path) as folder,
            coordinator_at(folder, lambda: next(found)) as (it, _),
        ):
            host, _, port = it.client.rpartition(":")
            socket.create_connection((host, int(port)), timeout=30).close()


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
