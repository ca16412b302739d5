"""The transparency log over HTTPS, as an outsider reads it, of a process that is killed."""

from pathlib import Path

import pytest
from support.process.server import Server
from support.public_log import published_by
from support.samples.deployment import manifest, user

from keyhouse.manifest import fingerprint

pytestmark = pytest.mark.acceptance


def test_a_killed_coordinator_continues_its_log(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    raw = manifest()
    with server:
        with server.client() as client:
            assert client.set_manifest(raw).status == 200
        with server.client(user("writer")) as client:
            for number in range(280):
                assert client.upload({"note": b"%d" % number}).status == 200
            before = published_by(client)
            assert client.get(f"/api/v2/log/object/{fingerprint(raw)}").body == raw
        server.kill()
    with server, server.client(user("writer")) as client:
        assert client.upload({"note": b"after"}).status == 200
        after = published_by(client)
    assert after.entries[: len(before.entries)] == before.entries
    assert after.kinds[len(before.entries) :] == ["Started", "SecretsUploaded"]


def test_only_what_the_log_has_is_answered(running: Server) -> None:
    with running.client() as client:
        size = published_by(client).checkpoint.size
        there = {"tile/entries/000.p/1": 200, f"tile/0/000.p/{size}": 200}
        unknown = dict.fromkeys(
            (f"tile/0/000.p/{size + 1}", "tile/0/000", "tile/entries/001", "tile/0/000.p/0",
             "tile/0/000.p/256", "tile/01/000.p/1", "tile/64/000.p/1", "tile/1/000.p/1",
             f"object/{'0' * 64}"),
            404,
        )  # fmt: skip
        nothing = dict.fromkeys(
            ("tile/0/000.p/1/", "tile/0/00", "tile/", "tile/0/000.p", "tile/0/000.p/1x", "object/",
             "tile/entries/../../../sealed_key", "tile/0/%2e%2e/000", "object/../../sealed_key",
             f"object/{'0' * 63}", f"object/{'A' * 64}", f"object/{'0' * 64}/", "", "entries"),
            405,
        )  # fmt: skip
        for path, status in (there | unknown | nothing).items():
            assert client.get(f"/api/v2/log/{path}").status == status, path
        assert client.call("POST", "/api/v2/log/tile/0/000.p/1", b"").status == 405
