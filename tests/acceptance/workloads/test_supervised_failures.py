"""Supervised programs through failures: each row of the table in the launcher's page."""

import json
import shutil
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from support.living.coordinators import begin, manifest_with, revoke, update, upload
from support.living.supervised import Supervised, living_type
from support.process.fake_clock import OtherClock
from support.process.server import PATIENCE, Server
from support.samples.deployment import user

pytestmark = pytest.mark.acceptance

OFTEN = ("--renew-every", "5")
NEW = bytes(15) + b"\1"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A coordinator with a renewable type, whose program reloads on HUP."""
    with Server(tmp_path / "living") as server:
        begin(server, living_type(OnChange={"Signal": "HUP"}), Trust={"OverlapHours": 1})
        yield server


def roots(app: Supervised) -> int:
    return len(x509.load_pem_x509_certificates((app.folder / "roots.pem").read_bytes()))


def test_a_killed_coordinator_is_found_again(server: Server, tmp_path: Path) -> None:
    with Supervised(server.mesh_port, tmp_path / "app") as app:
        started = app.state("started")
        server.kill()
        server.start()
        upload(server, NEW)
        changed = app.state("SIGHUP")
        assert changed["token"] == NEW.hex()
        assert changed["files"]["tls.pem"] == started["files"]["tls.pem"]
        assert server.logged().count("a workload was activated") == 1


def test_a_workload_that_was_away_for_two_days_activates_again(tmp_path: Path) -> None:
    clock = OtherClock(tmp_path)
    with clock.server(tmp_path / "living") as server:
        begin(server, living_type(OnChange={"Signal": "HUP"}))
        with Supervised(server.mesh_port, tmp_path / "app") as app:
            started = app.state("started")
            uuid = (tmp_path / "app" / "uuid").read_text()
            server.stop()
            clock.set_ahead(timedelta(days=2))
            server.start()
            renewed = app.state("SIGHUP")
            assert renewed["files"]["tls.pem"] != started["files"]["tls.pem"]
            assert renewed["pid"] == started["pid"]
            assert (tmp_path / "app" / "uuid").read_text() == uuid
            assert app.reported().count("activated again") == 1
            assert "clock of this machine differs" in app.reported()
        assert server.logged().count("a workload was activated") == 2


def test_weeks_pass_in_minutes(tmp_path: Path) -> None:
    """The coordinator's clock runs ahead; each restart lets the agent hear the time."""
    clock = OtherClock(tmp_path)
    with clock.server(tmp_path / "living") as server:
        begin(server, living_type(ValidMinutes=10_080, OnChange={"Signal": "HUP"}))
        with Supervised(server.mesh_port, tmp_path / "app") as app:
            seen = {app.state("started")["files"]["tls.pem"]}
            for week in range(1, 5):
                server.stop()
                clock.set_ahead(timedelta(days=6 * week))
                server.start()
                seen.add(app.state("SIGHUP")["files"]["tls.pem"])
            assert len(seen) == 5
        assert server.logged().count("a workload was activated") == 1


def test_a_revoked_workload_keeps_its_program(server: Server, tmp_path: Path) -> None:
    with Supervised(server.mesh_port, tmp_path / "app") as app:
        app.state("started")
        uuid = (tmp_path / "app" / "uuid").read_text()
        revoke(server, {"scope": "workload", "marbleType": "app", "uuid": uuid})
        app.reports_until("trying again in 600 s")
        assert "the coordinator refused the call (revoked)" in app.reported()
        app.process.send_signal(signal.SIGUSR1)
        assert app.state("SIGUSR1")["token"] == bytes(16).hex()


def test_a_revoked_type_renews_with_evidence(server: Server, tmp_path: Path) -> None:
    with Supervised(server.mesh_port, tmp_path / "app") as app:
        started = app.state("started")
        revoke(server, {"scope": "type", "marbleType": "app"})
        renewed = app.state("SIGHUP")
        assert renewed["files"]["tls.pem"] != started["files"]["tls.pem"]


def test_a_type_without_renewal_keeps_its_certificate(server: Server, tmp_path: Path) -> None:
    with Supervised(server.mesh_port, tmp_path / "app") as app:
        app.state("started")
        marble = living_type()
        del marble["Renewal"]
        update(server, manifest_with(marble))
        app.reports_until("trying again in 600 s")
        assert "the coordinator refused the call (not-enabled)" in app.reported()
        assert app.process.poll() is None


def test_new_roots_come_at_once_and_the_new_certificate_after_the_time_to_settle(
    server: Server, tmp_path: Path
) -> None:
    marble = living_type(OnChange={"Signal": "HUP"})
    with Supervised(server.mesh_port, tmp_path / "app") as app:
        started = app.state("started")
        assert roots(app) == 1
        marble["Parameters"]["Env"]["MORE"] = "of it"
        update(server, manifest_with(marble, Trust={"OverlapHours": 1}))
        changed = app.state("SIGHUP")
        assert roots(app) == 2
        assert changed["files"]["tls.pem"] == started["files"]["tls.pem"]
        # A raised security version ends the trust in the former roots.
        update(server, json.dumps({"Packages": {"app": {"SecurityVersion": 2}}}).encode())
        changed = app.state("SIGHUP")
        assert roots(app) == 1
        assert changed["files"]["tls.pem"] != started["files"]["tls.pem"]


def test_a_package_that_is_not_admitted_any_more_keeps_its_program(tmp_path: Path) -> None:
    with Server(tmp_path / "living") as server:
        identity = json.loads((server.data / "simulation" / "attestation.json").read_text())
        own = {"SignerID": "11" * 32, "ProductID": 3, "SecurityVersion": 4}
        (tmp_path / "identity.json").write_text(json.dumps({**identity, **own}))
        raw = json.loads(manifest_with(living_type(OnChange={"Signal": "HUP"})))
        raw["Packages"]["app"] = own
        with server.client() as client:
            assert client.set_manifest(json.dumps(raw).encode()).status == 200
        upload(server, NEW)
        machine = ("--platform", "simulation", "--simulated-machine", str(server.data))
        identity_of_app = ("--simulated-identity", str(tmp_path / "identity.json"))
        with Supervised(server.mesh_port, tmp_path / "app", *machine, *identity_of_app) as app:
            started = app.state("started")
            update(server, json.dumps({"Packages": {"app": {"SecurityVersion": 5}}}).encode())
            app.reports_until("the coordinator refused the call (forbidden)")
            app.process.send_signal(signal.SIGUSR1)
            assert app.state("SIGUSR1")["files"] == started["files"]


def test_nothing_is_taken_from_an_old_copy(server: Server, tmp_path: Path) -> None:
    """A host starts the coordinator with an older disk."""
    with Supervised(server.mesh_port, tmp_path / "app") as app:
        app.state("started")
        server.stop()
        shutil.copytree(server.data, tmp_path / "old")
        server.start()
        upload(server, NEW)
        assert app.state("SIGHUP")["token"] == NEW.hex()
        server.stop()
        shutil.rmtree(server.data)
        shutil.copytree(tmp_path / "old", server.data)
        server.start()
        app.reports_until("has seen the state")
        app.process.send_signal(signal.SIGUSR1)
        assert app.state("SIGUSR1")["token"] == NEW.hex()


def test_a_full_disk_leaves_the_old_files(server: Server, tmp_path: Path) -> None:
    """A limit of the size of files stands for the full disk."""
    marble = living_type(OnChange={"Signal": "HUP"})
    marble["Parameters"]["Files"]["note"] = "{{ raw .Secrets.note }}"
    note(server, b"short")
    update(server, manifest_with(marble, Trust={"OverlapHours": 1}))
    limited = ["/bin/sh", "-c", 'ulimit -f 16; exec "$@"', "sh"]
    with Supervised(server.mesh_port, tmp_path / "app", wrapper=limited) as app:
        started = app.state("started")
        note(server, b"n" * 60_000)
        app.reports_until("the file 'note' of the manifest cannot be written")
        app.process.send_signal(signal.SIGUSR1)
        assert app.state("SIGUSR1")["files"] == started["files"]
        note(server, b"short again")
        assert app.state("SIGHUP")["files"]["note"] != started["files"]["note"]


def note(server: Server, content: bytes) -> None:
    with server.client(user("writer")) as client:
        given = {"note": {"key": b64encode(content).decode()}}
        reply = client.post("/api/v2/secrets", {"secrets": given})
        assert reply.status == 200, reply.body


_ENDS = """
import signal, sys, threading
from keyhouse.base.secret import Secret
from keyhouse.launcher.program import Program
from keyhouse.launcher.supervise.notifications import Notifications
from keyhouse.launcher.supervise.orders import Changed, Ends, OrderQueue, Reload, Start
from keyhouse.launcher.supervise.processes import WAKE, Processes
from keyhouse.launcher.supervise.supervisor import Supervisor

stops, script, restarts = sys.argv[1] == "stop", sys.argv[2].encode(), sys.argv[3] == "restart"
processes = Processes()
main = threading.get_ident()
orders = OrderQueue(lambda: signal.pthread_kill(main, WAKE))
program = Program(b"/bin/sh", (b"sh", b"-c", script), {b"PATH": Secret(b"/bin:/usr/bin")})
say = lambda text: print(text, flush=True)
supervisor = Supervisor(
    processes, orders, Notifications({}), stop_after=0.2, progress=say, warning=say)
orders.send(Start(program, Reload()))
if restarts:
    second = Program(program.file, (b"sh", b"-c", b"exit 6"), program.env)
    orders.send(Changed(second, Reload(restart=True), True))
else:
    orders.send(Ends(0.3, stops))
sys.exit(supervisor.run())
"""


def supervised(end: str, script: str, restart: str = "") -> tuple[int, str]:
    ended = subprocess.run(
        [sys.executable, "-I", "-c", _ENDS, end, script, restart],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert not ended.stderr
    return ended.returncode, ended.stdout


def test_on_end_stop_ends_the_program_with_its_certificate() -> None:
    code, out = supervised("stop", "trap 'echo TERM; exit 3' TERM; while :; do sleep 0.01; done")
    assert code == 3
    assert "stopping the program, by OnEnd of the manifest" in out
    assert "TERM" in out


def test_a_program_that_does_not_stop_is_killed() -> None:
    code, out = supervised("stop", "trap '' TERM; while :; do sleep 0.01; done")
    assert code == 128 + signal.SIGKILL
    assert "did not end within 0 s of SIGTERM" in out


def test_on_end_keep_keeps_the_program() -> None:
    code, out = supervised("keep", "while [ ! -e /proc/$PPID/never ]; do sleep 1; exit 4; done")
    assert code == 4
    assert "the certificate has ended: other workloads refuse it" in out


def test_a_restart_starts_the_program_again() -> None:
    code, out = supervised("keep", "while :; do sleep 0.01; done", "restart")
    assert "restarting the program" in out
    assert code == 6


_ELSEWHERE = """
import os, sys
from pathlib import Path
from keyhouse.base.secret import Secret
from keyhouse.launcher.errors import LaunchRefusedError
from keyhouse.launcher.program import Program
from keyhouse.launcher.supervise.processes import Processes

files = {"conf/note": Secret(b"from the launcher"), "gone": Secret(b"removed meanwhile")}
Path("conf").mkdir()
Path("conf/note").write_bytes(b"of the parent")
os.register_at_fork(after_in_child=lambda: os.chdir(sys.argv[1]))
program = Program(b"/bin/cat", (b"cat", b"conf/note"), {}, files)
try:
    child, has_copies = Processes().start(program)
except LaunchRefusedError as refused:
    sys.exit(str(refused))
os.waitpid(child, 0)
print(has_copies, os.listdir(sys.argv[1]))
"""


@pytest.mark.parametrize("place", ["other", "own"])
def test_a_child_that_does_not_see_the_files_writes_copies(tmp_path: Path, place: str) -> None:
    """Relative paths stand for the tmpfs of Gramine, which each process has for itself."""
    for name in ("own", "other"):
        (tmp_path / name).mkdir()
    ended = subprocess.run(
        [sys.executable, "-I", "-c", _ELSEWHERE, str(tmp_path / place)],
        cwd=tmp_path / "own",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    copied = "from the launcherTrue ['conf']\n"
    seen = "of the parentFalse ['conf']\n"
    assert (ended.stdout, ended.stderr) == (copied if place == "other" else seen, "")


def test_a_child_reports_that_it_cannot_write_its_copies(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    ended = subprocess.run(
        [sys.executable, "-I", "-c", _ELSEWHERE, "/proc"],
        cwd=tmp_path / "own",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 1
    assert "the file 'conf/note' of the manifest cannot be written" in ended.stderr
