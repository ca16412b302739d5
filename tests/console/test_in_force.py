"""The manifest that the console keeps: read again when the log has grown, and only then."""

import asyncio
from pathlib import Path

import pytest
from support.peers.console import context_of
from support.process.server import Server
from support.samples.deployment import user
from support.samples.updates import Api, together

from keyhouse.client.contexts import Contexts, write
from keyhouse.console.deployments import ConsoleDeployment

pytestmark = pytest.mark.acceptance


def test_it_is_read_again_when_the_log_has_grown_and_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    raw, then = (together(word=word) for word in ("", "then"))

    async def looked(server: Server) -> None:
        context = context_of(server, tmp_path, "alice")
        write(tmp_path / "keyhouse" / "contexts.toml", Contexts("prod", {"prod": context}))
        deployment = ConsoleDeployment("prod", context, read_only=False)
        link = await deployment.link()

        async def told() -> str:
            await link.coordinator.activations()
            return link.coordinator.log_head

        first = await deployment.in_force(await told())
        assert (first.manifest.raw, first.user, bool(first.head)) == (raw, "alice", True)
        assert await deployment.in_force(await told()) is first
        assert await deployment.in_force() is not first  # nothing was told: it is read
        with server.client(user("writer")) as writer:
            assert writer.upload({"note": b"text"}).status == 200
        grown = await deployment.in_force(await told())
        assert (grown.fingerprint, grown.head == first.head) == (first.fingerprint, False)
        with server.client(user("alice")) as alice, server.client(user("bob")) as bob:
            assert Api(2).update(alice, then).status == 200
            assert Api(2).acknowledge(bob, then).status == 200
        updated = await deployment.in_force(await told())
        assert updated.manifest.raw == then
        assert await deployment.in_force(await told()) is updated
        await deployment.close()

    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(raw).status == 200
        asyncio.run(looked(server))
