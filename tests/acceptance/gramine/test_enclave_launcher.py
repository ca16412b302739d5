"""`keyhouse run` under Gramine: it joins, writes files and becomes the program."""

import json
from pathlib import Path

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


def _manifest(data: Path) -> bytes:
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
            "Marbles": {"web": {"Package": "app", "Parameters": parameters}},
            "Secrets": {"token": {"Type": "symmetric-key", "Size": 128}},
        }
    ).encode()


@pytest.mark.parametrize("work", ["tmpfs", "encrypted"])
def test_a_program_gets_its_files_and_variables(tmp_path: Path, runtime: Path, work: str) -> None:
    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(_manifest(server.data)).status == 200
        machine = ("--simulated-machine", "/machine", "--platform", "simulation")
        proof = (
            *("--attestation", "/machine/simulation/attestation.json"),
            *("--simulation-root", "/machine/simulation/root.pem"),
            *("--client-api", f"127.0.0.1:{server.port}"),
        )
        given = ("--coordinator", f"127.0.0.1:{server.mesh_port}", "--type", "web")
        ended = run_program(
            tmp_path / "enclave",
            runtime,
            ("run", *given, *machine, *proof, "--timeout", "60", "--uuid-file", "/work/uuid"),
            PROGRAM,
            machine=server.data,
            work=work,
        )
    assert ended.returncode == 0, ended.stdout
    (line,) = (each for each in ended.stdout.splitlines() if each.startswith("{"))
    shown = json.loads(line)
    assert shown["argv"] == ["word"]
    assert len(shown["env"]["TOKEN"]) == 32
    assert shown["env"]["MINE"] == "of the manifest"
    assert not [name for name in shown["env"] if name.startswith("KEYHOUSE_")]
    assert shown["mode"] == 0o600
