"""Older copies, forks and new deployments at an old address: real coordinators, real commands."""

import base64
import json
import shutil
from pathlib import Path

import pytest
from support.process.command import Ended, run
from support.process.server import Server
from support.samples.deployment import manifest, user
from support.samples.recovery import Holder, holders, recoverable

from keyhouse.attestation import read_collateral, read_expected_identity
from keyhouse.base.secret import Secret
from keyhouse.client import (
    ClientIdentity,
    Coordinator,
    FileMemory,
    SecretUpload,
    TrustedCoordinator,
    TrustError,
    verify_coordinator,
)

pytestmark = pytest.mark.acceptance


class Desk:
    """A user's machine, which remembers, and a coordinator whose disk is the host's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = Server(folder / "data")
        self.host = f"127.0.0.1:{self.server.port}"
        self.known = folder / "state" / "keyhouse" / "known-coordinators.json"

    def type(self, *words: str) -> Ended:
        """Run a command of this user."""
        state = str(self.folder / "state")
        return run(*words, env={"XDG_STATE_HOME": state}, folder=self.folder)

    def verified(self, *words: str, of: str = "data") -> Ended:
        """Run a command that verifies the coordinator."""
        simulation = f"{of}/simulation"
        return self.type(
            *words,
            *("--attestation", f"{simulation}/attestation.json"),
            *("--simulation-root", f"{simulation}/root.pem"),
        )

    def status(self, *words: str) -> Ended:
        """Ask for the status."""
        return self.verified("status", self.host, *words)

    def trusted(self) -> TrustedCoordinator:
        """Verify the coordinator with the SDK and the memory of the commands."""
        folder = self.server.data / "simulation"
        return verify_coordinator(
            self.host,
            expected=read_expected_identity((folder / "attestation.json").read_bytes()),
            root_ca_der=_der((folder / "root.pem").read_text()),
            collateral=read_collateral((folder / "collateral.json").read_bytes()),
            memory=FileMemory(self.known),
        )

    def write(self, name: str, content: bytes) -> None:
        """Upload a secret with the SDK."""
        writer = user("writer")
        identity = ClientIdentity(self.folder / "writer.crt", self.folder / "writer.key")
        identity.certificate.write_bytes(writer.pem)
        identity.key.write_bytes(writer.key_pem)
        with Coordinator(self.trusted(), identity) as coordinator:
            coordinator.write_secrets({name: SecretUpload(key=Secret(content))})

    def copy(self, name: str) -> None:
        """Copy the disk of the coordinator, which does not run."""
        shutil.copytree(self.server.data, self.folder / name)

    def put_back(self, name: str) -> None:
        """Put a copy in place of the disk of the coordinator, which does not run."""
        shutil.rmtree(self.server.data)
        shutil.copytree(self.folder / name, self.server.data)


def _der(pem: str) -> bytes:
    return base64.b64decode("".join(pem.splitlines()[1:-1]))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A coordinator that runs with a manifest and is not started yet; its user has seen it."""
    desk = Desk(tmp_path)
    (tmp_path / "m.json").write_bytes(manifest())
    with desk.server:
        ended = desk.verified("manifest", "set", "m.json", desk.host)
        assert ended.code == 0, ended.err
    return desk


def _refused(ended: Ended, problem: str) -> None:
    assert (ended.code, ended.out) == (4, ""), ended
    error, hint = ended.err.splitlines()[-2:]
    assert error.startswith("error: ")
    assert problem in error
    assert hint.startswith("hint: ")


def test_who_remembers_refuses_an_older_copy_of_everything(desk: Desk) -> None:
    desk.copy("older")
    with desk.server:
        desk.write("key0", b"written after it")
        assert desk.status().code == 0
    desk.put_back("older")
    with desk.server:
        _refused(desk.status(), "rollback: ")
        _refused(desk.verified("manifest", "verify", "m.json", desk.host), "rollback: ")
        with pytest.raises(TrustError, match="rollback: "):
            desk.trusted()
        assert desk.status("--memory", "none").code == 0  # a quote alone does not show it
        assert desk.status("--memory", "another.json").code == 0  # nor does who never saw more


def test_an_older_copy_that_has_overtaken_the_memory_is_refused(desk: Desk) -> None:
    desk.copy("older")
    with desk.server:
        desk.write("key0", b"written after it")
        assert desk.status().code == 0
    desk.put_back("older")
    with desk.server, desk.server.client(user("writer")) as other:
        for turn in range(12):
            assert other.upload({"key0": bytes([turn]) * 16}).status == 200
        _refused(desk.status(), "fork: the log of ")
        with pytest.raises(TrustError, match="does not continue"):
            desk.trusted()
        assert desk.status("--memory", "another.json").code == 0


def test_who_continues_from_an_older_copy_on_purpose_says_so(desk: Desk) -> None:
    desk.copy("older")
    with desk.server:
        desk.write("key0", b"written after it")
    desk.put_back("older")
    with desk.server:
        _refused(desk.status(), f"the coordinator at {desk.host}")
        forgotten = desk.type("trust", "forget", desk.host)
        assert forgotten.code == 0
        assert desk.host in forgotten.out
        assert desk.status().code == 0
        assert desk.type("trust", "forget", "127.0.0.1:1").code == 1


def test_the_second_of_two_forks_at_one_sequence_is_noticed(desk: Desk) -> None:
    desk.copy("fork")
    with desk.server:
        assert desk.status().code == 0
    here = FileMemory(desk.known).read()
    desk.put_back("fork")
    with desk.server:
        _refused(desk.status(), "fork: ")
    assert FileMemory(desk.known).read() == here


def test_a_fork_that_runs_at_another_address_is_noticed_too(desk: Desk) -> None:
    desk.copy("fork")
    other = Server(desk.folder / "fork")
    with desk.server, other:
        assert desk.status().code == 0
        _refused(desk.verified("status", f"127.0.0.1:{other.port}", of="fork"), "fork: ")


def test_a_new_root_is_a_trust_failure_though_the_manifest_is_equal(desk: Desk) -> None:
    machine = desk.server.data / "simulation"
    shutil.copytree(machine, desk.folder / "machine")
    shutil.rmtree(desk.server.data)
    desk.server.data.mkdir(mode=0o700)
    shutil.copytree(desk.folder / "machine", machine)  # the same CPU, the same code
    with desk.server:
        with desk.server.client() as client:
            assert client.set_manifest(manifest()).status == 200
        words = ("manifest", "verify", "m.json", desk.host)
        _refused(desk.verified(*words), "has changed: its SHA-256")
        assert desk.verified(*words, "--memory", "none").code == 0


def test_a_coordinator_that_continues_is_trusted_across_restarts_and_kills(desk: Desk) -> None:
    for turn in range(3):
        desk.server.start()
        desk.write(f"key{turn}", bytes([turn]) * 16)
        assert desk.status().code == 0
        desk.server.kill() if turn % 2 else desk.server.stop()
    shown = desk.type("trust", "show", "--json")
    (found,) = json.loads(shown.out)["coordinators"]
    assert found["address"] == desk.host
    with desk.server, desk.server.client() as client:
        now = client.get("/api/v2/status").headers["keyhouse-state"]
    assert int(now.split(".")[1]) > int(found["state"].split(".")[1])


class Lost(Desk):
    """A coordinator with three holders, two of them needed. Its user has seen it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.keys: list[Holder] = holders(3)
        (folder / "m.json").write_bytes(recoverable(self.keys, 2))
        for each in self.keys:
            (folder / f"{each.name}.key").write_bytes(each.private_pem)
        with self.server:
            words = ("manifest", "set", "m.json", self.host, "-r", "recovery.json")
            ended = self.verified(*words)
            assert ended.code == 0, ended.err
        self.copy("older")

    def lose(self) -> None:
        """Let the sealed key be gone."""
        (self.server.data / "sealed_key").unlink()

    def recover(self, by: Holder) -> Ended:
        """Hand in the share of ``by``."""
        return self.verified(
            *("recover", "recovery.json", self.host, "--key", f"{by.name}.key"),
        )


def test_a_recovery_needs_nothing_to_be_forgotten(tmp_path: Path) -> None:
    lost = Lost(tmp_path)
    lost.lose()
    with lost.server:
        _refused(lost.status(), "has changed: its SHA-256")  # the temporary one
        assert lost.recover(lost.keys[0]).code == 0
        ended = lost.recover(lost.keys[1])
        assert ended.code == 0, ended.err
        assert "recovered: " in ended.out
        assert lost.status().code == 0


def test_a_recovery_from_an_older_copy_is_noticed_when_it_is_complete(tmp_path: Path) -> None:
    lost = Lost(tmp_path)
    with lost.server:
        for turn in range(8):
            lost.write("key0", bytes([turn]) * 16)
    lost.put_back("older")
    lost.lose()
    with lost.server:
        assert lost.recover(lost.keys[0]).code == 0
        _refused(lost.recover(lost.keys[1]), "rollback: ")


def test_another_deployment_in_recovery_mode_gets_no_share(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    lost, other = Lost(tmp_path / "one"), Lost(tmp_path / "two")
    shutil.rmtree(lost.server.data)
    shutil.copytree(other.server.data, lost.server.data)
    lost.lose()
    with lost.server:
        _refused(lost.recover(lost.keys[0]), "certificate that is remembered for this address")
        with lost.server.client() as client:
            assert client.get("/api/v2/recover/public-key").data["received"] == []


def test_without_a_place_to_remember_a_command_does_nothing_unless_told_to(desk: Desk) -> None:
    simulation = desk.server.data / "simulation"
    trust = (
        *("--attestation", str(simulation / "attestation.json")),
        *("--simulation-root", str(simulation / "root.pem")),
    )
    with desk.server:
        for state in ("", "relative/path"):
            ended = run("status", desk.host, *trust, env={"XDG_STATE_HOME": state})
            assert ended.code == 2
            assert ended.err.startswith("error: there is no directory for the memory")
        ended = run("status", desk.host, *trust, "--memory", "none", env={"XDG_STATE_HOME": ""})
        assert (ended.code, ended.err) == (0, "")
        home = desk.folder / "home"
        ended = run("status", desk.host, *trust, env={"XDG_STATE_HOME": "", "HOME": str(home)})
        assert (ended.code, ended.err) == (0, "")
    assert (home / ".local/state/keyhouse/known-coordinators.json").is_file()


def test_a_damaged_memory_is_named_and_nothing_is_asked(desk: Desk) -> None:
    desk.known.write_bytes(b"{}")
    with desk.server:
        ended = desk.status()
    assert ended.code == 1
    assert "known-coordinators.json is damaged" in ended.err
