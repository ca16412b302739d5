"""H6: running workloads after the restoration of a backup, with and without ``--begin-new-log``."""

import copy
import hashlib
import shutil
from pathlib import Path

import pytest
from support.living.channel import RunningWorkload, refusal
from support.living.deployment import channel_manifest, update, upload
from support.process.server import Server
from support.public_log import published_by

from keyhouse.transparency.keys import VerifierKey
from keyhouse.transparency.leaf import TrustLeaf
from keyhouse.wire import workload_pb2 as wire

pytestmark = pytest.mark.acceptance


class Restored:
    """A deployment whose newest state is lost: a workload has renewed twice after the backup."""

    def __init__(self, folder: Path, *, updated: bool = False) -> None:
        self.data = folder / "data"
        server = Server(self.data)
        with server:
            with server.client() as client:
                assert client.set_manifest(channel_manifest()).status == 200
                self.origin = VerifierKey.read(client.get("/api/v2/log/key").data["verifierKey"])
            upload(server, bytes(16))
            self.workload = RunningWorkload(server.mesh_port)
            self.workload.renew()
            self.thief = copy.copy(self.workload)  # of the key before the backup
        shutil.copytree(self.data, folder / "backup")
        with server:
            self.workload.port = server.mesh_port
            if updated:
                update(server)
            for _ in range(2):
                self.workload.renew()
        shutil.rmtree(self.data)
        (folder / "backup").rename(self.data)

    def server(self, *, stated: bool) -> Server:
        flag = ("--begin-new-log", self.origin.name) if stated else ()
        server = Server(self.data, arguments=flag)
        for each in (self.workload, self.thief):
            each.port = server.mesh_port
        return server


def code(workload: RunningWorkload) -> str:
    return str(refusal(lambda: workload.call("Fetch", wire.FetchRequest())).code)


def test_without_the_flag_later_keys_are_superseded(tmp_path: Path) -> None:
    restored = Restored(tmp_path)
    with restored.server(stated=False):
        assert code(restored.workload) == "superseded"
        restored.thief.call("Fetch", wire.FetchRequest())  # as the state was


def test_with_the_flag_a_lineage_continues_once_with_evidence(tmp_path: Path) -> None:
    restored = Restored(tmp_path)
    with restored.server(stated=True) as server:
        # No key reads secrets before a renewal: not the key that the backup knows, either.
        assert code(restored.thief) == code(restored.workload) == "renew-first"
        restored.workload.renew()
        restored.workload.call("Fetch", wire.FetchRequest())
        assert code(restored.thief) == "superseded"
        assert refusal(restored.thief.renew).code == "superseded"
        server.kill()
        server.start()
        restored.workload.renew()
        restored.workload.call("Fetch", wire.FetchRequest())


def test_a_certificate_of_an_unknown_root_activates_again(tmp_path: Path) -> None:
    restored = Restored(tmp_path, updated=True)
    with restored.server(stated=True):
        assert refusal(restored.workload.renew).code == "activate-again"
        # The refusal has not spent the continuation.
        restored.thief.renew()
        restored.thief.call("Fetch", wire.FetchRequest())


def test_the_new_log_begins_with_the_marble_roots_in_force(tmp_path: Path) -> None:
    restored = Restored(tmp_path)
    with restored.server(stated=True) as server, server.client() as client:
        (root,) = restored.workload.renew().marble_roots
        log = published_by(client)
    _, trust, *_ = log.leaves
    assert log.kinds == ["LogBegun", "Trust", "Started"]
    assert isinstance(trust, TrustLeaf)
    assert trust.subjects == (("in-force", hashlib.sha256(root).hexdigest()),)
