"""`keyhouse watch`: each new leaf is verified and told; what breaks a proof ends it."""

import base64
import json
import os
import shutil
import signal
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import pytest
from support.cosigner import Cosigner
from support.peers.witness import Witness
from support.process.command import Ended, run
from support.process.server import Server
from support.process.start import start
from support.samples.deployment import manifest, user
from support.samples.updates import together

from keyhouse.transparency.note import Checkpoint, SignedNote

pytestmark = pytest.mark.acceptance


class Watcher:
    """A coordinator, and someone who watches its log."""

    def __init__(self, folder: Path) -> None:
        self.server = Server(folder / "data")
        self.state = folder / "watched.json"
        self.alerts = folder / "alerts"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    def look(self, *words: str, host: bool = True, once: bool = True) -> Ended:
        return run(*self.words(*words, host=host, once=once))

    def words(self, *words: str, host: bool = True, once: bool = True) -> tuple[str, ...]:
        simulation = self.server.data / "simulation"
        return (
            *("watch", *host * (self.host,), *once * ("--once",), *words),
            *("--state", str(self.state)),
            *("--attestation", str(simulation / "attestation.json")),
            *("--simulation-root", str(simulation / "root.pem")),
        )

    def told(self) -> list[dict[str, Any]]:
        """Return what is told now."""
        program = self.state.with_name("program")
        program.write_text(f"#!/bin/sh\ncat >> {self.alerts}\n")
        program.chmod(0o700)
        ended = self.look("--json", "--exec", str(program))
        assert ended.code == 0, ended.err
        return [json.loads(line) for line in ended.out.splitlines()]

    def upload(self, times: int) -> None:
        with self.server.client(user("writer")) as client:
            for number in range(times):
                assert client.upload({"note": b"%d" % number}).status == 200


@pytest.fixture(name="watcher")
def _watcher(tmp_path: Path) -> Watcher:
    return Watcher(tmp_path)


def test_every_new_leaf_is_told_once(watcher: Watcher, tmp_path: Path) -> None:
    raw, then = (together(updaters=("alice", "bob"), word=word) for word in ("", "then"))
    with watcher.server:
        with watcher.server.client() as client:
            assert client.set_manifest(raw).status == 200
        first = watcher.told()
        assert [each["kind"] for each in first] == ["log-begun", "manifest-set", "started"]
        assert not any(each.get("alert") for each in first)
        assert watcher.told() == []
        watcher.upload(2)
        (one, two) = watcher.told()
        assert (one["index"], two["index"], two["kind"]) == (3, 4, "secrets-uploaded")
        assert two["text"] == "writer uploaded: note, claimed by the coordinator"
        with watcher.server.client(user("alice")) as client:
            body = {"manifest": base64.b64encode(then).decode()}
            assert client.post("/api/v2/update", body).status == 200
            assert client.call("POST", "/api/v2/update-cancel", b"").status == 200
        proposed, cancelled = watcher.told()
        assert "alice proposed manifest" in proposed["text"]
        assert "the user did not sign this" in proposed["why"][0]
        assert cancelled["why"][-1] == "an update was cancelled"
        mirror = tmp_path / "mirror"
        watcher.upload(1)
        ended = watcher.look("--mirror", str(mirror), "--witness-url", "http://w.example")
        assert (
            " 7 secrets-uploaded: writer uploaded: note, claimed by the coordinator\n" in ended.out
        )
        assert "witness-silent: the witness at http://w.example does not answer" in ended.out
        assert (mirror / "checkpoint").exists()
    alerts = [json.loads(line) for line in watcher.alerts.read_text().splitlines()]
    assert [each["index"] for each in alerts] == [5, 6]
    ended = watcher.look()
    assert ended.code == 3


def test_a_start_without_its_quote_is_an_alert(watcher: Watcher) -> None:
    with watcher.server, watcher.server.client() as client:
        assert client.set_manifest(manifest()).status == 200
    (objects,) = (watcher.server.data / "log").glob("*/object")
    for each in objects.iterdir():
        each.unlink() if each.read_bytes() != manifest() else None
    with watcher.server:
        *_, first, second = watcher.told()
    assert "the entry names the quote of the start, and the object" in first["why"][0]
    assert (second["kind"], second.get("alert")) == ("started", None)


def test_witnesses_tell_what_was_withheld(watcher: Watcher) -> None:
    older = watcher.state.with_name("older")
    with (
        Witness(Cosigner.ed25519("w1.example")) as witness,
        Witness(Cosigner.ed25519("w2.example")) as other,
    ):
        policy = watcher.state.with_name("policy")
        lines = [f"witness A {witness.cosigner.verifier} {witness.url}", "quorum A"]
        policy.write_text("\n".join(lines))
        words = ("--json", "--witness-policy", str(policy), "--witness-url", other.url)
        with watcher.server, watcher.server.client() as client:
            assert client.set_manifest(manifest()).status == 200
            for each in (witness, other):
                each.trust(client.get("/api/v2/log/key").data["verifierKey"])
        shutil.copytree(watcher.server.data, older)
        with watcher.server, watcher.server.client() as client:
            watcher.upload(9)
            note = client.get("/api/v2/log/checkpoint").body
            for each in (witness, other):
                each.kept[Checkpoint.read(SignedNote.read(note).text).origin] = Checkpoint.read(
                    SignedNote.read(note).text
                )
            alerts = told(watcher.look(*words), "not-witnessed")
            assert "no quorum" in alerts[0]["text"]
        watcher.state.unlink()
        shutil.rmtree(watcher.server.data)
        shutil.copytree(older, watcher.server.data)
        with watcher.server:
            (alert,) = told(watcher.look(*words), "withheld")
            assert "has seen 13 leaves, expected at most 4" in alert["text"]
            watcher.upload(9)
            (alert,) = told(watcher.look(*words), "withheld")
            assert "has seen a different log of 13 leaves" in alert["text"]
            assert witness.told == other.told == [200, 409, 409]


def told(ended: Ended, kind: str) -> list[dict[str, Any]]:
    """Return what was told of this ``kind``."""
    assert ended.code == 0, ended.err
    found = [json.loads(line) for line in ended.out.splitlines()]
    return [each for each in found if each["kind"] == kind]


def interrupted(words: tuple[str, ...], *, lines: int) -> int:
    """Return the exit code of a command that is interrupted once it has printed so many lines."""
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb") as shown, TemporaryFile() as errors, TemporaryDirectory() as state:
        with os.fdopen(theirs, "wb") as output:
            watching = start(
                words, output=output, errors=errors, environment={"XDG_STATE_HOME": state}
            )
        for _ in range(lines):
            assert shown.readline()
        watching.send_signal(signal.SIGINT)
        return watching.wait(60)


def test_a_log_that_does_not_continue_is_kept_and_others_are_watched(watcher: Watcher) -> None:
    older = watcher.state.with_name("older")
    with watcher.server, watcher.server.client() as client:
        assert client.set_manifest(manifest()).status == 200
    shutil.copytree(watcher.server.data, older)
    with watcher.server:
        watcher.upload(2)
        known = len(watcher.told())
    shutil.rmtree(watcher.server.data)
    shutil.copytree(older, watcher.server.data)
    with watcher.server:
        watcher.upload(9)
        before = watcher.state.read_bytes()
        ended = watcher.look(once=False)
        broken = f"the log at {watcher.host} is broken: the proof does not lead to the stated root"
        (kept,) = watcher.state.parent.glob("*.broken-*")
        (line,) = ended.out.splitlines()
        assert (ended.code, line[0]) == (4, "!")
        assert f"{watcher.host} ended: {broken} (show the evidence in {kept} to" in line
        assert broken in ended.err
        assert watcher.state.read_bytes() == before
        same = watcher.host.replace("127.0.0.1", "localhost")  # of which nothing is known
        assert interrupted(watcher.words(same, once=False), lines=1 + 13) == 4
        watcher.state.write_bytes(before)
        ended = watcher.look("--json", "127.0.0.1:1", same)
        found = [json.loads(line) for line in ended.out.splitlines()]
        assert ended.code == 4
        assert [each["kind"] for each in found[:2]] == ["ended", "ended"]
        assert [each["index"] for each in found[2:]] == list(range(13))
        assert watcher.look("127.0.0.1:1", same, host=False).code == 3
    found = json.loads(kept.read_text())
    assert found["known"]["frontier"]["size"] == known
    assert b"\n13\n" in base64.b64decode(found["served"]["checkpoint"])
    watcher.state.write_bytes(b"{}")
    with watcher.server:
        ended = watcher.look()
        watcher.state.chmod(0o620)
        planted = watcher.look()
    assert (ended.code, "is damaged" in ended.err) == (1, True)
    assert (planted.code, "other users can write" in planted.err) == (1, True)
