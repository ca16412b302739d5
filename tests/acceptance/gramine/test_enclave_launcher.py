"""`keyhouse run` under Gramine: it joins, writes files and becomes the program."""

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from support.process.gramine import begin_program, ended_program
from support.process.server import Server
from support.samples.deployment import user

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
        program = begin_program(
            tmp_path / "enclave", runtime, _words(server), PROGRAM, machine=server.data, work=work
        )
        code, out = ended_program(program)
    assert code == 0, out
    (line,) = (each for each in out.splitlines() if each.startswith("{"))
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
        program = begin_program(
            tmp_path / "enclave",
            runtime,
            _words(server, "--supervise", "--renew-every", "20"),
            _SUPERVISED,
            machine=server.data,
            work=work,
        )
        code, out = ended_program(program)
    assert code == 7, out
    lines = [line.split() for line in out.splitlines() if line.startswith("shown ")]
    assert [event for _, event, _ in lines] == ["started", "notified"]
    shown = {found for _, _, found in lines}
    assert "FileNotFoundError" not in shown
    has_copies = "the program does not see the files of the launcher" in out
    assert (has_copies, len(shown)) == ((True, 1) if work == "tmpfs" else (False, 2))


_RESTARTED = """
import sys, time

with open("conf/note", "rb") as file:
    note = file.read().decode()
print("shown", note, flush=True)
if note != "first":
    sys.exit(7)
time.sleep(300)
"""


@pytest.mark.parametrize("work", ["tmpfs", "encrypted"])
def test_a_restarted_program_sees_changed_files(tmp_path: Path, runtime: Path, work: str) -> None:
    def upload(server: Server, note: bytes) -> None:
        with server.client(user("writer")) as client:
            given = {"note": {"key": b64encode(note).decode()}}
            assert client.post("/api/v2/secrets", {"secrets": given}).status == 200

    with Server(tmp_path / "data") as server:
        content = json.loads(_manifest(server.data, Renewal={"OnChange": {"Restart": True}}))
        content["Marbles"]["web"]["Parameters"]["Files"]["conf/note"] = "{{ raw .Secrets.note }}"
        content["Secrets"]["note"] = {"Type": "plain", "UserDefined": True}
        writer = {"ResourceType": "Secrets", "ResourceNames": ["note"], "Actions": ["WriteSecret"]}
        content["Roles"] = {"writer": writer}
        pem = user("writer").pem.decode()
        content["Users"] = {"writer": {"Certificate": pem, "Roles": ["writer"]}}
        with server.client() as client:
            assert client.set_manifest(json.dumps(content).encode()).status == 200
        upload(server, b"first")
        program = begin_program(
            tmp_path / "enclave",
            runtime,
            _words(server, "--supervise"),
            _RESTARTED,
            machine=server.data,
            work=work,
        )
        assert program.stdout is not None
        before = []
        for line in program.stdout:
            before.append(line)
            if line == "shown first\n":
                break
        upload(server, b"second")
        code, out = ended_program(program)
    assert code == 7, (before, out)
    assert "shown second" in out.splitlines()
