"""The coordinator as a process: what shapes it, what does not, and how it refuses to start."""

import json
import os
import shutil
import signal
import socket
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from support.process.command import refusal, refused_start, run
from support.process.server import Server
from support.process.start import KEYHOUSE
from support.samples.deployment import manifest, user

from keyhouse.attestation.platforms.gramine import DEV_ATTESTATION
from keyhouse.attestation.platforms.tsm import SEV_GUEST, TSM_REPORTS
from keyhouse.server.process.settings import SETTINGS

pytestmark = pytest.mark.acceptance

_ALLOWED = {"KEYHOUSE_ISOLATED", "KEYHOUSE_LOG_LEVEL", "LANG", "TZ"}

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root may look into the process")


def proc(server: Server, name: str) -> bytes:
    """Return what the system says of the process."""
    assert server.process is not None
    return Path(f"/proc/{server.process.pid}/{name}").read_bytes()


def bare(data: Path, environment: dict[str, str]) -> Server:
    """Return a coordinator with no flag but the one that asks for the simulation."""
    server = Server(data, environment=environment, cold=True)
    server._command = [KEYHOUSE, "serve", "--platform", "simulation"]
    return server


def certificate_names(server: Server) -> list[str]:
    pem = ssl.get_server_certificate(("127.0.0.1", server.port))
    found = x509.load_pem_x509_certificate(pem.encode())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return names.get_values_for_type(x509.DNSName)


# --- the environment ---


def test_it_runs_without_any_variable_in_any_directory(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    change = [shutil.which("env") or "/usr/bin/env", "-C", str(elsewhere)]
    server = Server(tmp_path / "keyhouse-data", wrapper=change)
    at = server._command.index("--data-dir")
    del server._command[at : at + 2]  # the default: a directory below the present one
    with server, server.client() as anyone, server.client(user("writer")) as writer:
        assert anyone.set_manifest(manifest()).status == 200
        assert writer.upload({"key0": bytes(16)}).status == 200
        assert server.stop() == 0
    assert sorted(path.name for path in elsewhere.iterdir()) == ["keyhouse-data"]
    assert stat.S_IMODE((elsewhere / "keyhouse-data").stat().st_mode) == 0o700


@pytest.fixture
def hostile(tmp_path: Path) -> dict[str, str]:
    """Variables by which others would read along, or run code of theirs, in the process."""
    modules = tmp_path / "modules"
    modules.mkdir()
    spoil = f"open({str(tmp_path / 'ran')!r}, 'w').close()\n"
    for name in ("httptools", "uvloop", "msgspec", "dcap_qvl"):
        (modules / f"{name}.py").write_text(spoil)
    (tmp_path / "start.py").write_text(spoil)
    (tmp_path / "openssl.cnf").write_text("openssl_conf = nonsense\n[nonsense]\nengines = x\n")
    return {
        "SSLKEYLOGFILE": str(tmp_path / "keys"),
        "OPENSSL_CONF": str(tmp_path / "openssl.cnf"),
        "SSL_CERT_FILE": str(tmp_path / "none"),
        "PYTHONPATH": str(modules),
        "PYTHONSTARTUP": str(tmp_path / "start.py"),
        "PYTHONASYNCIODEBUG": "1",
        "PYTHONINSPECT": "1",
        "PYTHONDEVMODE": "1",
        "UVLOOP_DEBUG": "1",
        "LD_PRELOAD": str(tmp_path / "nothing.so"),
        "LD_LIBRARY_PATH": str(tmp_path),
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "KEYHOUSE_LOG_LEVEL": "debug",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "SECRET_OF_ANOTHER_PROGRAM": "x",
    }


@AS_ROOT
def test_hostile_variables_have_no_effect(tmp_path: Path, hostile: dict[str, str]) -> None:
    server = Server(tmp_path / "data", environment=hostile, cold=True)
    with server, server.client() as anyone:
        assert anyone.set_manifest(manifest()).status == 200
        variables = proc(server, "environ").rstrip(b"\0").split(b"\0")
        command = proc(server, "cmdline").rstrip(b"\0").split(b"\0")
        assert server.stop() == 0
    names = {variable.partition(b"=")[0].decode() for variable in variables}
    assert names <= _ALLOWED
    assert command[1:6] == [b"-I", b"-B", b"-m", b"keyhouse.server", b"--platform"]
    assert not (tmp_path / "keys").exists()
    assert not (tmp_path / "ran").exists()


@AS_ROOT
def test_the_process_leaves_no_core_file_and_makes_private_files(tmp_path: Path) -> None:
    with Server(tmp_path / "data", cold=True) as server:
        limits = proc(server, "limits").decode()
        status = dict(line.split(":\t", 1) for line in proc(server, "status").decode().splitlines())
    core = next(line for line in limits.splitlines() if line.startswith("Max core file size"))
    assert core.split()[4:6] == ["0", "0"]
    assert status["Umask"] == "0077"
    for path in server.data.rglob("*"):
        assert stat.S_IMODE(path.lstat().st_mode) & 0o077 == 0, path.name


# --- settings, as a process has them ---


def test_the_variables_of_both_interfaces_are_settings_and_our_own_names_win(
    tmp_path: Path,
) -> None:
    old = bare(tmp_path / "old", {"EDG_COORDINATOR_DNS_NAMES": "old.example"})
    old._environment |= {
        "EDG_COORDINATOR_SEAL_DIR": str(old.data),
        "EDG_COORDINATOR_CLIENT_ADDR": f"127.0.0.1:{old.port}",
        "EDG_COORDINATOR_MESH_ADDR": f"127.0.0.1:{old.mesh_port}",
        "EDG_COORDINATOR_DEV_MODE": "1",
    }
    with old:
        assert "old.example" in certificate_names(old)
    assert (old.data / "simulation").is_dir()
    assert not old.logged().startswith("{")

    new = bare(tmp_path / "new", dict(old._environment))
    new._environment |= {
        "KEYHOUSE_DATA_DIR": str(new.data),
        "KEYHOUSE_CLIENT_ADDR": f"127.0.0.1:{new.port}",
        "KEYHOUSE_MESH_ADDR": f"127.0.0.1:{new.mesh_port}",
        "KEYHOUSE_DNS_NAMES": "",  # empty: unset
        "KEYHOUSE_LOG_FORMAT": "json",
    }
    with new:
        assert "old.example" in certificate_names(new)
    assert (new.data / "simulation").is_dir()
    assert new.logged().startswith("{")


def test_no_variable_turns_the_simulation_on(tmp_path: Path) -> None:
    wished = {"KEYHOUSE_PLATFORM": "simulation", "EDG_COORDINATOR_DEV_MODE": "1"}
    for platform in ("auto", "gramine", "tdx"):
        refused = refused_start(tmp_path / "data", platform=platform, env=wished)
        assert "--platform simulation" in refused.hint
    assert not (tmp_path / "data").exists()

    refused = refused_start(tmp_path / "data", env={"OE_SIMULATION": "1"})
    assert refused.error.startswith("OE_SIMULATION=1 has no effect")
    assert refused.hint == "unset the variable; for a simulation use --platform simulation"


@pytest.mark.skipif(
    DEV_ATTESTATION.exists() or SEV_GUEST.exists() or TSM_REPORTS.exists(),
    reason="this machine has a platform",
)
def test_without_a_platform_the_start_says_what_was_looked_for() -> None:
    for words in ((), ("--platform", "auto")):
        refused = refusal(run("serve", *words))
        assert refused.error == (
            "no platform was found here: neither gramine (/dev/attestation)"
            " nor snp (/dev/sev-guest) nor tdx (/dev/tdx_guest) exists"
        )
        assert "--platform simulation" in refused.hint


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--client-addr", "nowhere"), "--client-addr is not an address"),
        (("--data-dir", ""), "--data-dir is empty; a value is expected"),
        (
            ("--dns-names", "good.example,b\u00e4d.example"),
            "entry [1] of --dns-names is neither a DNS name nor an IP address",
        ),
        (("--log-level", "loud"), "--log-level has an invalid value"),
        (
            ("--client-addr", "203.0.113.9:0"),
            "cannot listen on 203.0.113.9 port 0: this machine has no such address",
        ),
        (
            ("--client-addr", "no..name:1"),
            "cannot listen on no..name port 1: the host is not an address of this machine",
        ),
        (
            ("--client-addr", f"{'long' * 20}:1"),
            f"cannot listen on {'long' * 20} port 1: the host is not an address of this machine",
        ),
        (
            ("--client-addr", "\x1b[31m\r:1"),
            "cannot listen on \\x1b[31m\\r port 1: the host is not an address of this machine",
        ),
    ],
    ids=lambda value: value[1][:12].strip() if isinstance(value, tuple) else "",
)
def test_a_setting_that_cannot_be_is_refused_in_one_line(
    tmp_path: Path, words: tuple[str, ...], error: str
) -> None:
    assert refused_start(tmp_path / "data", *words).error == error


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        refused = refused_start(tmp_path / "data", "--client-addr", f"127.0.0.1:{port}")
    assert refused.error == f"cannot listen on 127.0.0.1 port {port}: another process uses the port"
    assert refused.hint == (
        "stop the other process, or pass another --client-addr, --mesh-addr or --metrics-addr"
    )


def test_wrong_usage_ends_with_2() -> None:
    ended = run("serve", "--plat", "tdx")

    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "error: unknown setting --plat\nhint: did you mean --platform?\n"


def test_the_help_has_an_example_and_every_setting() -> None:
    ended = run("serve", "--help")

    assert (ended.code, ended.err) == (0, "")
    shown = " ".join(ended.out.split())
    assert shown.index("keyhouse serve --platform simulation") < shown.index("--data-dir VALUE")
    for setting in SETTINGS:
        assert f"{setting.flag} " in shown
        assert all(name in shown for name in setting.variables)


# --- the log ---


def test_the_log_is_one_json_object_a_line_unless_text_is_asked_for(tmp_path: Path) -> None:
    with Server(tmp_path / "data", cold=True) as server, server.client() as anyone:
        assert anyone.set_manifest(manifest()).status == 200
    lines = [json.loads(line) for line in server.logged().splitlines()]
    assert {line["event"] for line in lines} >= {"serving the Client API", "stopped"}
    assert all({"event", "level", "timestamp"} <= line.keys() for line in lines)

    with Server(tmp_path / "text", arguments=["--log-format", "text"], cold=True) as server:
        pass
    text = server.logged()
    assert "serving the Client API" in text
    assert "{" not in text
    assert "\x1b" not in text  # colours are for terminals


@pytest.mark.parametrize(
    "log", ["2>/dev/full", "2>&-", "2> >(:)"], ids=["disk full", "closed", "reader gone"]
)
def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path, log: str) -> None:
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("bash is not installed")
    server = Server(tmp_path / "data", wrapper=[shell, "-c", f'exec "$0" "$@" {log}'])
    with server, server.client() as anyone, server.client(user("writer")) as writer:
        assert anyone.set_manifest(manifest()).status == 200
        assert writer.upload({"key0": bytes(16)}).status == 200
        assert server.stop() == 0
    assert sorted(path.name for path in server.data.iterdir()) == [
        "journal.db",
        "lock",
        "log",
        "recovery_index",
        "sealed_key",
        "simulation",
    ]


# --- the tests' own coordinators ---


class _Impatient(Server):
    patience = 0.0


def test_a_coordinator_that_misses_the_limit_of_its_start_is_not_left_running(
    tmp_path: Path,
) -> None:
    server = _Impatient(tmp_path / "data", wrapper=["/bin/sh", "-c", "exec /bin/sleep 600"])

    with pytest.raises(AssertionError):
        server.start()

    assert server.process is not None
    assert server.process.returncode == -signal.SIGKILL
