"""`keyhouse run` under Gramine: it joins, writes files and becomes the program."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.process.gramine import run_program
from support.process.server import Server

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

PROGRAM = """
import json, os, ssl, sys
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain("conf/tls.pem", "conf/tls.key")
context.load_verify_locations(cadata=os.environ["MARBLE_PREDEFINED_ROOT_CA"])
mode = os.stat("conf/tls.key").st_mode & 0o777
shown = {"argv": sys.argv[1:], "env": dict(os.environ), "mode": mode, "pid": os.getpid()}
print(json.dumps(shown), flush=True)
"""


_SUPERVISED = """
import hashlib, os, signal, sys, time

def show(event):
    try:
        with open("conf/tls.pem", "rb") as file:
            print("shown", event, hashlib.sha256(file.read()).hexdigest(), flush=True)
    except OSError as error:
        print("shown", event, type(error).__name__, flush=True)

got = []
signal.signal(signal.SIGHUP, lambda *_: got.append(1))
show("started")
while not got:
    time.sleep(0.1)
show("notified")
sys.exit(7)
"""


def _manifest(data: Path, **marble: Any) -> bytes:
    identity = json.loads((data / "simulation/attestation.json").read_text())
    parameters = {
        "Files": {
            "conf/tls.pem": "{{ pem .MarbleRun.MarbleCert.Cert }}",
            "conf/tls.key": "{{ pem .MarbleRun.MarbleCert.Private }}",
        },
        "Env": {"TOKEN": "{{ hex .Secrets.token }}"},
    }
    return json.dumps(
        {
            "Packages": {"app": {"UniqueID": identity["UniqueID"]}},
            "Marbles": {"web": {"Package": "app", "Parameters": parameters, **marble}},
            "Secrets": {"token": {"Type": "symmetric-key", "Size": 128}},
        }
    ).encode()


def _words(server: Server, *more: str) -> tuple[str, ...]:
    return (
        *("run", "--coordinator", f"127.0.0.1:{server.mesh_port}", "--type", "web", *more),
        *("--simulated-machine", "/machine", "--platform", "simulation"),
        *("--attestation", "/machine/simulation/attestation.json"),
        *("--simulation-root", "/machine/simulation/root.pem"),
        *("--client-api", f"127.0.0.1:{server.port}"),
        *("--timeout", "60", "--uuid-file", "/work/uuid"),
    )


@pytest.mark.parametrize("work", ["tmpfs", "encrypted"])
def test_a_program_gets_its_files_and_variables(tmp_path: Path, runtime: Path, work: str) -> None:
    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(_manifest(server.data)).status == 200
        ended = run_program(
            tmp_path / "enclave", runtime, _words(server), PROGRAM, machine=server.data, work=work
        )
    assert ended.returncode == 0, ended.stdout
    (line,) = (each for each in ended.stdout.splitlines() if each.startswith("{"))
    shown = json.loads(line)
    assert shown["argv"] == ["word"]
    assert len(shown["env"]["TOKEN"]) == 32
    assert shown["env"]["MINE"] == "of the manifest"
    assert not [name for name in shown["env"] if name.startswith("KEYHOUSE_")]
    assert shown["mode"] == 0o600


@pytest.mark.parametrize("work", ["tmpfs", "encrypted"])
def test_a_supervised_program_is_a_process_that_shares_only_mounts(
    tmp_path: Path, runtime: Path, work: str
) -> None:
    """Signals and exit codes pass between the processes. A tmpfs belongs to one process."""
    with Server(tmp_path / "data") as server:
        renewal = {"OnChange": {"Signal": "HUP"}}
        with server.client() as client:
            assert client.set_manifest(_manifest(server.data, Renewal=renewal)).status == 200
        ended = run_program(
            tmp_path / "enclave",
            runtime,
            _words(server, "--supervise", "--renew-every", "20"),
            _SUPERVISED,
            machine=server.data,
            work=work,
        )
    assert ended.returncode == 7, ended.stdout
    lines = [line.split() for line in ended.stdout.splitlines() if line.startswith("shown ")]
    assert [event for _, event, _ in lines] == ["started", "notified"]
    shown = {found for _, _, found in lines}
    if work == "tmpfs":
        assert shown == {"FileNotFoundError"}
    else:
        assert len(shown) == 2
        assert "FileNotFoundError" not in shown
