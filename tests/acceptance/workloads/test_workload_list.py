"""`keyhouse workload`: who joined, and who was refused, read from a terminal."""

import json
import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile

import pytest
from support.peers.joined import asked_to_join, joined
from support.process.command import run
from support.process.server import Server
from support.process.start import start
from support.samples.activation import marble_manifest
from support.samples.deployment import user

pytestmark = pytest.mark.acceptance


@pytest.fixture(name="server", scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("site") / "data") as server:
        with server.client() as client:
            raw = marble_manifest(
                {"web": {"Package": "app"}, "few": {"Package": "app", "MaxActivations": 1}},
                Config={"FeatureGates": ["MonotonicCounter"]},
            )
            assert client.set_manifest(raw).status == 200
        yield server


@pytest.fixture(name="words")
def how_to_list(server: Server, tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "me.crt").write_bytes(user("admin").pem)
    (tmp_path / "me.key").write_bytes(user("admin").key_pem)
    machine = server.data / "simulation"
    return (
        *("workload", "list", f"127.0.0.1:{server.port}"),
        *("--cert", str(tmp_path / "me.crt"), "--key", str(tmp_path / "me.key")),
        *("--attestation", str(machine / "attestation.json")),
        *("--simulation-root", str(machine / "root.pem")),
    )


def test_who_joined_is_listed_with_the_package(server: Server, words: tuple[str, ...]) -> None:
    marbles = [str(uuid.uuid4()), str(uuid.uuid4())]
    for marble in marbles:
        joined(server, "web", marble)
    with server.client(user("admin")) as client:  # an activation is recorded after its answer
        while len(client.get("/api/v2/activations").data["activations"]) < len(marbles):
            pass

    ended = run(*words)
    lines = [line.split() for line in ended.out.splitlines()]
    lines = lines[: lines.index([])]  # the limits follow
    assert (ended.code, lines[0]) == (0, ["time", "type", "package", "TCB", "uuid", "names"])
    assert [line[1:6] for line in lines[1:]] == [
        ["web", "app", "no", "quote", marble] for marble in marbles
    ]
    found = json.loads(run(*words, "--json", "--all").out)["activations"]
    assert [each["uuid"] for each in found] == marbles


def test_counters_and_limits_are_listed(server: Server, words: tuple[str, ...]) -> None:
    marble = str(uuid.uuid4())
    with server.client(joined(server, "few", marble)) as workload:
        for name in "dcba":
            body = {"name": name, "value": 7}
            assert workload.post("/api/v2/monotonic-counter", body).status == 200

    lines = run(*words).out.splitlines()
    own = next(line for line in lines if marble in line)
    assert own.endswith("  a=7, b=7, c=7, 1 more")
    assert [line.split() for line in lines[-2:]] == [
        ["type", "package", "activations"],
        ["few", "app", "1", "of", "1,", "used", "up"],
    ]
    found = json.loads(run(*words, "--json").out)
    assert found["limits"] == {"few": {"activations": 1, "maxActivations": 1}}
    counters = {"a": 7, "b": 7, "c": 7, "d": 7}
    assert found["workloads"] == [{"marbleType": "few", "uuid": marble, "counters": counters}]


def test_who_was_refused_is_listed_with_the_reason(server: Server, words: tuple[str, ...]) -> None:
    marble = str(uuid.uuid4())
    for marble_type, named in (("web", "x"), ("other", ""), ("other", marble)):
        assert asked_to_join(server, marble_type, named).answer is None
    words = (words[0], "refused", *words[2:])

    found = json.loads(run(*words, "--json").out)
    other, web = found["refused"][:2]
    assert (other["marbleType"], other["count"], other["uuid"]) == ("other", 2, marble)
    assert (web["marbleType"], web["package"], web["code"]) == ("web", "app", "invalid")
    assert web["time"] <= other["first"] <= other["time"]
    assert found["since"] <= web["time"]
    shown = run(*words).out.splitlines()
    assert shown[0].split() == ["newest", "times", "type", "package", "uuid", "reason"]
    reason = 'the manifest has no marble type "other" ('
    assert reason in shown[1]


def test_watching_prints_who_joins_until_it_is_interrupted(
    server: Server, words: tuple[str, ...], tmp_path: Path
) -> None:
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb") as shown, TemporaryFile() as errors:
        with os.fdopen(theirs, "wb") as output:
            watching = start(
                (*words, "--watch", "--interval", "1", "--json"),
                output=output,
                errors=errors,
                environment={"XDG_STATE_HOME": str(tmp_path)},
            )
        marble = str(uuid.uuid4())
        joined(server, "web", marble)
        assert any(json.loads(line)["uuid"] == marble for line in iter(shown.readline, b""))
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 0


def test_an_anonymous_client_is_told_to_name_a_user(words: tuple[str, ...]) -> None:
    anonymous = [word for word in words if word not in {"--cert", "--key"}]
    ended = run(*(word for word in anonymous if not word.endswith((".crt", ".key"))))

    assert ended.code == 2
