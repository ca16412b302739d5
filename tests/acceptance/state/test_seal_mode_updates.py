"""Updates of SealMode to and from Disabled over HTTPS, by one user and by two, and the restarts."""

import json
from pathlib import Path

import pytest
from support.peers.answers import checked
from support.process.command import refused_start, run
from support.process.server import Client, Reply, Server
from support.samples.deployment import user
from support.samples.recovery import Holder, ciphertexts_of, hand_in
from support.samples.updates import Api, holder_key, together

from keyhouse.client.errors import TrustError
from keyhouse.client.memory.states import Memories, read_place, with_state
from keyhouse.wire.address import Address

pytestmark = pytest.mark.acceptance

HOLDER = Holder("rk", holder_key("rk"))
KEPT_FILES = {"journal.db", "log", "sealed_key", "recovery_index"}


class Deployment:
    """A coordinator that ``agreeing`` update together, seen by a client that remembers."""

    def __init__(self, folder: Path, agreeing: int) -> None:
        self.server = Server(folder / "data")
        self.agreeing = ("alice", "bob")[:agreeing]
        self.memories = Memories()
        self.root = ""

    def raw(self, mode: str) -> bytes:
        many = len(self.agreeing)
        return together(
            updaters=self.agreeing, holders=("rk",), UpdateThreshold=many, SealMode=mode
        )

    def remember(self, reply: Reply) -> Reply:
        """Judge ``reply`` as the SDK does: whatever is older than what was seen raises."""
        address, root = Address("127.0.0.1", self.server.port), self.root
        known, seen = self.memories.highest(root), read_place(reply.headers["keyhouse-state"])
        self.memories = with_state(self.memories, address, root, known, seen)
        return reply

    def update(self, mode: str, version: int) -> str:
        """Let all who have to agree to ``mode``; return the message of the answer that applied."""
        api, raw = Api(version), self.raw(mode)
        first, *others = self.agreeing
        with self.client(first) as client:
            reply = self.remember(checked(api.update(client, raw)))
            assert reply.status == 200, reply.body
        for name in others:
            with self.client(name) as client:
                reply = self.remember(checked(api.acknowledge(client, raw)))
                assert reply.status == 200, reply.body
        return reply.body.decode()

    def client(self, name: str = "") -> Client:
        return self.server.client(user(name) if name else None)

    def upload(self, value: bytes) -> None:
        with self.client("writer") as client:
            assert self.remember(client.upload({"note": value})).status == 200

    def note(self) -> bytes | None:
        with self.client("writer") as client:
            return client.secrets(["note"])["note"]

    def status(self) -> tuple[int, str]:
        with self.client() as client:
            data = client.get("/api/v2/status").data
            return data["code"], data["message"]

    def root_now(self) -> str:
        with self.client() as client:
            chain = client.get("/api/v2/quote").data["cert"]
            assert isinstance(chain, str)
            return chain.partition("-----END CERTIFICATE-----\n")[2]

    def files(self) -> set[str]:
        """Return the names in the directory that are of a store, or of its end."""
        names = {each.name for each in self.server.data.iterdir()}
        return names - {"lock", "simulation", "archive", "journal.db-wal"}


@pytest.mark.parametrize("agreeing", [1, 2], ids=["by one", "by two"])
def test_the_state_goes_to_memory_and_comes_back_with_the_answer(
    tmp_path: Path, agreeing: int
) -> None:
    here = Deployment(tmp_path, agreeing)
    with here.server:
        with here.client() as client:
            ciphertexts = ciphertexts_of(client.set_manifest(here.raw("ProductKey")))
        here.root = here.root_now()
        here.upload(b"on the disk")
        sealed = (here.server.data / "sealed_key").read_bytes()

        answer = here.update("Disabled", 2)
        assert "a restart loses everything" in answer
        assert here.files() == {"tombstone"}
        everything = [each.read_bytes() for each in here.server.data.rglob("*") if each.is_file()]
        assert not any(sealed[-60:-33] in content for content in everything)
        assert here.note() == b"on the disk"
        here.upload(b"in memory")

        here.update("ProductKey", 1)
        assert here.files() == KEPT_FILES
        here.server.kill()
        here.server.start()
        assert here.status()[0] == 3
        assert here.note() == b"in memory"
        here.upload(b"after a kill")

    (here.server.data / "sealed_key").unlink()
    share = HOLDER.share(ciphertexts["rk"])
    with here.server:
        assert here.status()[0] == 1
        with here.client() as client:
            assert hand_in(client, share, HOLDER.sign(share)).data["remaining"] == 0
        assert here.note() == b"after a kill"
        here.upload(b"recovered")
        assert here.root_now() == here.root


@pytest.mark.parametrize("agreeing", [1, 2], ids=["by one", "by two"])
def test_a_restart_without_a_stored_state_tells_why_and_begins_again(
    tmp_path: Path, agreeing: int
) -> None:
    here = Deployment(tmp_path, agreeing)
    with here.server:
        with here.client() as client:
            assert client.set_manifest(here.raw("ProductKey")).status == 200
        here.root = here.root_now()
        here.update("Disabled", 1)
        with here.client() as client:
            log = client.get("/api/v2/update").data["updateLog"]
            assert "a restart loses everything" in json.loads(log[-1])["update"]
        here.server.kill()
        here.server.start()
        code, message = here.status()
        assert code == 2
        assert "SealMode Disabled came into force" in message
        assert "was erased at 1." in message
        assert "starts without the former state" in here.server.logged()
        assert here.root_now() != here.root
        listed = run("store", "list", str(here.server.data))
        assert "SealMode Disabled came into force" in listed.err
        with here.client() as client:
            assert client.set_manifest(here.raw("ProductKey")).status == 200
        assert here.files() == KEPT_FILES
        assert here.status()[0] == 3
    with here.server:
        assert here.status()[0] == 3


def test_an_older_copy_put_back_beside_a_tombstone_stops_the_start(tmp_path: Path) -> None:
    here = Deployment(tmp_path, 1)
    with here.server:
        with here.client() as client:
            assert client.set_manifest(here.raw("ProductKey")).status == 200
        here.root = here.root_now()
        here.update("Disabled", 2)
        here.update("ProductKey", 2)
    copies = {name: (here.server.data / name).read_bytes() for name in KEPT_FILES - {"log"}}
    with here.server:
        here.update("Disabled", 2)
    for name, content in copies.items():
        (here.server.data / name).touch(0o600)
        (here.server.data / name).write_bytes(content)
    refusal = refused_start(here.server.data)
    assert "was erased at" in refusal.error
    assert "remove tombstone while Keyhouse is stopped" in refusal.hint
    for words in ((), ("--platform", "simulation")):
        verified = run("store", "verify", str(here.server.data), *words)
        assert verified.code == 1
        assert "remove the file tombstone while Keyhouse is stopped" in verified.out
    (here.server.data / "tombstone").unlink()
    with here.server:  # on purpose; clients that remember see a rollback
        assert here.status()[0] == 3
        with here.client() as client, pytest.raises(TrustError):
            here.remember(client.get("/api/v2/status"))
