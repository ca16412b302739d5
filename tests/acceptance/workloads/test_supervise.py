"""`keyhouse run --supervise` at a real coordinator: a program that lives through changes."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.living.coordinators import begin, manifest_with, update, upload
from support.living.relay import FaultyRelay
from support.living.supervised import Supervised, living_type
from support.process.server import Server

pytestmark = pytest.mark.acceptance

OFTEN = ("--renew-every", "5")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A coordinator without a manifest."""
    with Server(tmp_path / "living") as server:
        yield server


def test_a_program_gets_renewed_certificates_and_changed_secrets(
    server: Server, tmp_path: Path
) -> None:
    begin(server, living_type(OnChange={"Signal": "HUP"}))
    with Supervised(server.mesh_port, tmp_path / "app", *OFTEN) as app:
        started = app.state("started")
        assert started["token"] == bytes(16).hex()
        renewed = app.state("SIGHUP")
        for name in ("tls.pem", "tls.key"):
            assert renewed["files"][name] != started["files"][name]
        upload(server, bytes(15) + b"\1")
        while app.state("SIGHUP")["token"] != (bytes(15) + b"\1").hex():
            pass
        assert app.process.poll() is None
        assert app.stop() == 128 + signal.SIGTERM
    assert started["parent"] == app.process.pid


def test_only_a_new_key_needs_another_connection(server: Server, tmp_path: Path) -> None:
    begin(server, living_type(OnChange={"Signal": "HUP"}))
    connections: list[int] = []
    with FaultyRelay(server.mesh_port) as relay:
        relay.before = connections.append
        with Supervised(relay.port, tmp_path / "app", *OFTEN) as app:
            app.state("started")
            for number in (1, 2, 3):
                upload(server, bytes(15) + bytes([number]))
                while app.state("SIGHUP")["token"] != (bytes(15) + bytes([number])).hex():
                    pass
            app.reports_until("renewed: ", 3)
            # The activation and the first renewal have connections of their own.
            opened = len(connections)
            assert opened <= 2 + app.reported().count("renewed: ")


def test_a_renewal_alone_never_restarts_a_program(server: Server, tmp_path: Path) -> None:
    begin(server, living_type(OnChange={"Restart": True}))
    with Supervised(server.mesh_port, tmp_path / "app", *OFTEN) as app:
        started = app.state("started")
        certificate = tmp_path / "app" / "tls.pem"
        before = certificate.read_bytes()
        app.reports_until("files changed")
        assert certificate.read_bytes() != before
        upload(server, bytes(15) + b"\1")
        restarted = app.state("started")
        assert restarted["token"] == (bytes(15) + b"\1").hex()
        assert restarted["pid"] != started["pid"]
        assert restarted["parent"] == started["parent"]
    assert app.reported().count("restarting the program") == 1


def test_a_command_reloads_and_is_repeated_after_a_failure(server: Server, tmp_path: Path) -> None:
    reload = tmp_path / "reload"
    reload.write_text(
        '#!/bin/sh\n[ -e again ] || { touch again; exit 3; }\nkill -USR1 "$MAINPID"\n'
    )
    reload.chmod(0o700)
    begin(server, living_type(OnChange={"Command": [str(reload)]}))
    with Supervised(server.mesh_port, tmp_path / "app", *OFTEN) as app:
        started = app.state("started")
        notified = app.state("SIGUSR1")
        assert notified["files"]["tls.pem"] != started["files"]["tls.pem"]
        assert "ended with code 3; trying again in 1 s" in app.reported()


def test_changed_files_of_an_update_arrive_and_gone_files_are_removed(
    server: Server, tmp_path: Path
) -> None:
    begin(server, living_type(OnChange={"Signal": "HUP"}))
    with Supervised(server.mesh_port, tmp_path / "app", *OFTEN) as app:
        app.state("started")
        following = living_type(OnChange={"Signal": "USR2"})
        del following["Parameters"]["Files"]["token"]
        following["Parameters"]["Files"]["conf/new"] = "text"
        following["Parameters"]["Env"]["PLAIN"] = "other"
        update(server, manifest_with(following))
        while "token" in app.state("SIGUSR2")["files"]:
            pass
        assert (tmp_path / "app" / "conf" / "new").read_text() == "text"
        app.reports_until("variables or arguments have changed")  # after the signal
