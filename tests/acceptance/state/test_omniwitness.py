"""Held coordinators with three processes of omniwitness, which others run."""

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.peers.omniwitness import Omniwitness
from support.process.server import Server
from support.samples.deployment import manifest
from support.witnessed import require_held, until_held, until_served, upload

from keyhouse.transparency.keys import VerifierKey
from keyhouse.transparency.note import SignedNote
from keyhouse.transparency.policy import CosignaturePolicy

pytestmark = pytest.mark.acceptance


def running(witnesses: list[Omniwitness], log: str) -> ExitStack:
    with ExitStack() as stack:
        for each in witnesses:
            stack.enter_context(each.running(log))
        return stack.pop_all()


def test_old_disk_and_copy_are_held_by_omniwitness(tmp_path: Path) -> None:
    server, copy = Server(tmp_path / "data"), Server(tmp_path / "copy")
    witnesses = [Omniwitness.made(f"{name}.example/w", tmp_path / name) for name in "abc"]
    lines = [f"witness W{number} {each.key} {each.url}" for number, each in enumerate(witnesses)]
    policy = "\n".join([*lines, "group Q 2 W0 W1 W2", "quorum Q", ""])

    with server:
        with server.client() as client:
            raw = manifest(Transparency={"Witnesses": policy, "Serve": "Witnessed"})
            assert client.set_manifest(raw).status == 200
            log = client.get("/api/v2/log/key").data["verifierKey"]
        until_held(server, "witnesses have not cosigned the start")
        with running(witnesses, log):
            until_served(server)
            upload(server, bytes(16))
            with server.client() as client:
                note = SignedNote.read(client.get("/api/v2/log/checkpoint").body)
    assert len(CosignaturePolicy.read(policy).require(note, VerifierKey.read(log))) >= 2
    shutil.copytree(server.data, tmp_path / "old")
    shutil.copytree(server.data, copy.data)

    with running(witnesses, log), server:
        until_served(server)
        with copy:
            until_held(copy, "forked")
            require_held(copy)
        upload(server, bytes(16))
    shutil.rmtree(server.data)
    (tmp_path / "old").rename(server.data)
    with running(witnesses, log), server:
        until_held(server, "rolled back")
        require_held(server)
