"""Several coordinators on one database: real processes, eight clients, and what goes wrong."""

import asyncio
import base64
import http.client
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from support.peers.postgres import PASSWORD, PostgresServer
from support.peers.replicas import NAMES, Load, Replicas, awaited, manifest
from support.process.command import run
from support.process.server import PATIENCE, free_port
from support.public_log import published_by
from support.samples.deployment import user

from keyhouse.journal.shared import TRUSTED_FOR_FRESHNESS
from keyhouse.manifest import fingerprint


def test_all_replicas_serve_what_each_has_acknowledged(replicas: Replicas) -> None:
    servers = replicas.founded(3)
    with Load(servers).running() as load:
        load.progress()
    with servers[2].client(user("writer")) as client:
        for name, values in load.acknowledged.items():
            client.upload({"note": b"makes this replica catch up"})
            assert client.secrets([name])[name] == values[-1]
    assert [server.stop() for server in servers] == [0, 0, 0]
    load.check(replicas.events())


def asked(port: int, path: str) -> tuple[int, str]:
    """Return what a probe is answered, and why."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()).get("message", "")
    finally:
        connection.close()


def test_the_others_wait_for_the_first_manifest(replicas: Replicas) -> None:
    probes = free_port()
    first = replicas.started()
    second = replicas.prepared("--metrics-addr", f"127.0.0.1:{probes}")
    with second.log.open("ab") as log:
        second.process = second._start(log)
    while "another coordinator accepts the first manifest" not in second.logged():
        assert second.process.poll() is None
    assert asked(probes, "/live")[0] == 200
    waiting, why = asked(probes, "/ready")
    assert (waiting, "waits for another coordinator" in why) == (503, True)
    with first.client() as client:
        assert client.set_manifest(manifest()).status == 200
    second._wait(second.process)
    assert asked(probes, "/ready")[0] == 200
    with second.client() as client:
        status = client.get("/api/v2/status").data
    assert status["code"] == 3
    assert TRUSTED_FOR_FRESHNESS in status["message"]


def test_one_that_waits_can_be_stopped(replicas: Replicas) -> None:
    replicas.started()
    second = replicas.prepared()
    with second.log.open("ab") as log:
        second.process = second._start(log)
    while "another coordinator accepts the first manifest" not in second.logged():
        assert second.process.poll() is None
    assert second.stop() == 0


def test_the_next_takes_over_where_none_has_set_a_manifest(replicas: Replicas) -> None:
    first, second = replicas.started(), replicas.prepared()
    first.kill()
    second.start()
    with second.client() as client:
        assert client.set_manifest(manifest()).status == 200


def test_a_replica_dies_and_comes_back(replicas: Replicas) -> None:
    servers = replicas.founded()
    with Load(servers).running() as load:
        load.progress()
        servers[0].kill()
        load.progress()
        servers[0].start()
        load.progress()
        servers[1].kill()
        load.progress()
    load.check(replicas.events())


def test_a_replica_that_was_stopped_for_a_while_does_no_damage(replicas: Replicas) -> None:
    servers = replicas.founded()
    with Load(servers).running() as load:
        load.progress()
        assert servers[0].process is not None
        servers[0].process.send_signal(signal.SIGSTOP)
        with servers[1].client(user("writer")) as client:
            for count in range(5):
                assert client.upload({"note": f"{count}".encode()}).status == 200
        servers[0].process.send_signal(signal.SIGCONT)
        load.progress()
    load.check(replicas.events())


def test_without_the_database_it_is_live_but_not_ready(
    replicas: Replicas, postgres: PostgresServer
) -> None:
    probes = free_port()
    server = replicas.started("--metrics-addr", f"127.0.0.1:{probes}")
    with server.client() as client:
        assert client.set_manifest(manifest()).status == 200
        assert asked(probes, "/ready")[0] == 200
        with postgres.away():
            assert client.get("/api/v2/status").status == 503
            while (found := asked(probes, "/ready"))[0] == 200:
                assert server.process is not None
            assert "store does not answer" in found[1]
            assert asked(probes, "/live")[0] == 200
        while asked(probes, "/ready")[0] != 200:
            assert server.process is not None


def test_the_database_restarts(replicas: Replicas, postgres: PostgresServer) -> None:
    servers = replicas.founded()
    with Load(servers).running() as load:
        load.progress()
        with postgres.away(), servers[0].client() as client:
            # No answer comes from a view that may be old.
            assert client.get("/api/v2/status").status == 503
        load.progress()
    load.check(replicas.events())


def test_the_others_take_over_an_epoch_of_one(replicas: Replicas) -> None:
    first, second = replicas.founded()
    with first.client(user("alice")) as client:
        body = {"manifest": base64.b64encode(manifest("second")).decode()}
        assert client.post("/api/v2/update", body).status == 200
        state = client.get("/api/v2/status").headers["keyhouse-state"]
    with Load([second]).running() as load:
        load.progress()
    with second.client() as client:
        assert client.get("/api/v2/status").headers["keyhouse-state"].split(".")[0] == "2"
    assert state.startswith("2.")
    first.kill()
    second.kill()
    second.start()  # its directory has the key of the epoch that the other began
    load.check(replicas.events())


def test_each_replica_serves_the_whole_log(replicas: Replicas) -> None:
    servers = replicas.founded(2)
    first, second = servers
    then = manifest("second")
    with first.client(user("alice")) as client:
        body = {"manifest": base64.b64encode(then).decode()}
        assert client.post("/api/v2/update", body).status == 200
    first.stop()
    with second.client(user("writer")) as client:
        assert client.upload({"note": b"makes this replica catch up"}).status == 200
        found = published_by(client)
        assert client.get(f"/api/v2/log/object/{fingerprint(then)}").body == then
    assert found.kinds[-3:] == ["UpdateProposed", "ManifestUpdated", "SecretsUploaded"]
    second.kill()
    first.start()
    with first.client() as client:
        again = published_by(client)
        assert client.get(f"/api/v2/log/object/{fingerprint(then)}").body == then
    assert again.entries[:-1] == found.entries


def test_what_a_shared_store_cannot_keep_is_refused(replicas: Replicas) -> None:
    (server,) = replicas.founded(1)
    with server.client(user("alice")) as client:
        kept_nowhere = manifest("second", SealMode="Disabled")
        body = {"manifest": base64.b64encode(kept_nowhere).decode()}
        refused = client.post("/api/v2/update", body)
    assert refused.status == 403
    assert "SealMode Disabled" in refused.envelope["message"]


def test_a_lost_state_is_replaced_only_where_the_command_line_says_so(replicas: Replicas) -> None:
    (server,) = replicas.founded(1)
    server.kill()
    elsewhere = Replicas(replicas.folder / "elsewhere", replicas.url)
    elsewhere.folder.mkdir()
    try:
        probes = free_port()
        locked = elsewhere.started("--metrics-addr", f"127.0.0.1:{probes}")
        with locked.client() as client:
            assert client.get("/api/v2/status").data["code"] == 1
            assert "recovery mode" in asked(probes, "/ready")[1]
            refused = client.set_manifest(manifest())
            assert refused.status == 403
            assert "--replace-lost-state" in str(refused.envelope)
        locked.kill()
        server.start()  # the one that can open it serves on
        locked = elsewhere.started("--replace-lost-state")
        with locked.client() as client:
            assert client.set_manifest(manifest("other")).status == 200
        assert server.process is not None
        assert server.process.wait(PATIENCE) == 1
        assert "was archived" in server.logged()
    finally:
        elsewhere.end()


def test_no_secret_is_in_the_database_or_a_log(
    replicas: Replicas, postgres: PostgresServer
) -> None:
    servers = replicas.founded()
    canary = b"canary-of-a-secret"
    with servers[0].client(user("writer")) as client:
        assert client.upload({NAMES[0]: canary}).status == 200
    for server in servers:
        assert server.stop() == 0
        assert PASSWORD not in server.logged()
    seen = [path for path in postgres.folder.rglob("*") if path.is_file()]
    assert seen
    for path in seen:
        assert canary not in path.read_bytes(), path


def test_the_schema_comes_from_a_command(postgres: PostgresServer, tmp_path: Path) -> None:
    name = asyncio.run(postgres.database(empty=True))
    password = tmp_path / "password"
    password.write_text(f"{PASSWORD}\n")
    url = postgres.url(name).reveal().decode().replace(f":{PASSWORD}", "")
    with pytest.raises(AssertionError, match="schema keyhouse"):
        Replicas(tmp_path, postgres.url(name)).started()
    refused = run("store", "init", postgres.url(name).reveal().decode())
    assert refused.code == 1
    assert PASSWORD not in refused.err
    assert run("store", "init", url, "--password-file", str(password)).code == 0
    arguments = ("--store", url, "--store-password-file", str(password))
    with Replicas(tmp_path, None).prepared(*arguments) as server, server.client() as client:
        assert client.get("/api/v2/status").data["code"] == 2


def test_too_few_standbys_are_refused(replicas: Replicas) -> None:
    (server,) = replicas.founded(1)
    with pytest.raises(AssertionError, match=r"0 standbys .*\b1\b"):
        replicas.started("--store-standbys", "1")
    with server.client() as client:
        assert "machines" not in client.get("/api/v2/status").data["message"]


def test_the_doctor_looks_at_the_database(postgres: PostgresServer, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    for empty, code in ((False, 0), (True, 1)):
        name = asyncio.run(postgres.database(empty=empty))
        url = postgres.url(name).reveal().decode().replace(f":{PASSWORD}", "")
        where = ("--store", url, "--store-password-file", str(password))
        found = json.loads(run("doctor", *where, "--data-dir", str(tmp_path), "--json").out)
        of_database = [
            each for each in found["findings"] if each["check"] in {"database", "standby"}
        ]
        assert [each["level"] for each in of_database] == (
            ["problem"] if code else ["ok", "ok", "warning"]
        )
        assert (TRUSTED_FOR_FRESHNESS in str(of_database)) == (not code)
        needed = run("doctor", *where, "--data-dir", str(tmp_path), "--store-standbys", "1")
        assert needed.code == 1
        assert "waits for 0 standbys" in needed.out


def _tail(postgres: PostgresServer, replicas: Replicas, statement: str) -> list[tuple[Any, ...]]:
    """Return what ``statement`` finds in the database of ``replicas``."""
    assert replicas.url is not None
    name = replicas.url.reveal().decode().partition("/test")[2].partition("?")[0]
    return asyncio.run(postgres.ask(statement, database=f"test{name}"))


def test_a_deleted_record_is_noticed_and_replaced_while_replicas_run(
    replicas: Replicas, postgres: PostgresServer
) -> None:
    """They know it: a new epoch has all of it, and later starts read past the gap."""
    servers = replicas.founded(2)
    with servers[0].client(user("writer")) as client:
        assert client.upload({"note": b"kept"}).status == 200
    with servers[1].client(user("writer")) as client:
        assert client.secrets(["note"])["note"] == b"kept"
    _tail(
        postgres, replicas,
        "DELETE FROM keyhouse.record WHERE sequence = (SELECT sequence FROM keyhouse.head)",
    )  # fmt: skip
    awaited("records are missing in the database", *servers)
    while _tail(postgres, replicas, "SELECT 1 FROM keyhouse.head WHERE epoch = 1"):
        assert all(server.process and server.process.poll() is None for server in servers)
    with replicas.started().client(user("writer")) as client:
        assert client.secrets(["note"])["note"] == b"kept"
    assert [server.stop() for server in servers] == [0, 0]


def test_a_replica_that_noticed_a_rollback_does_not_start_on_it(
    replicas: Replicas, postgres: PostgresServer
) -> None:
    """It knows more than its last sealed head said, and keeps that before it ends."""
    (server,) = replicas.founded(1)
    before = "CREATE TABLE public.before AS SELECT * FROM keyhouse.head"
    _tail(postgres, replicas, before)
    with server.client(user("writer")) as client:
        assert client.upload({"note": b"lost"}).status == 200
    _tail(
        postgres, replicas,
        "WITH gone AS (DELETE FROM keyhouse.record WHERE sequence > (SELECT sequence FROM"
        " public.before)) UPDATE keyhouse.head h SET sequence = b.sequence, chain = b.chain"
        " FROM public.before b",
    )  # fmt: skip
    assert server.process is not None
    assert server.process.wait(60) == 1
    assert "the journal was rolled back" in server.logged()
    server.log.write_text("")
    with server.log.open("ab") as log:
        server.process = server._start(log)
    assert server.process.wait(60) == 1
    assert "the journal was rolled back" in server.logged()
