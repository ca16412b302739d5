"""The example for clusters: its files belong together, and on a simulated machine they work."""

import json
import re
import ssl
import subprocess
import sys
import tomllib
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificates
from support.process.helm import check
from support.process.launcher import ISOLATED
from support.process.server import Server, free_port

_EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "kubernetes"
_FILES: Final = "/tmp/app"  # noqa: S108 memory of the enclave; here a directory of the test
_TEMPLATE: Final = (_EXAMPLE / "workload.manifest.template").read_text(encoding="utf-8")


def gramine() -> dict[str, Any]:
    """Return Gramine's manifest with words in its places."""
    return tomllib.loads(re.sub(r"\{\{ .+? \}\}", "1", _TEMPLATE))


def objects() -> dict[str, Any]:
    text = (_EXAMPLE / "deployment.yaml").read_text(encoding="utf-8")
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def keyhouse_manifest() -> dict[str, Any]:
    found = yaml.safe_load((_EXAMPLE / "manifest.yaml").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def test_kubernetes_knows_every_field() -> None:
    for thing in objects().values():
        check(thing)


def test_the_deployment_gives_the_enclave_what_its_manifest_asks_for() -> None:
    pod = objects()["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert not {"args", "command"} & set(container)  # they are measured
    passed = gramine()["loader"]["env"]
    assert all(passed[each["name"]] == {"passthrough": True} for each in container["env"])
    limits = container["resources"]["limits"]
    assert limits["sgx.intel.com/epc"] == gramine()["sgx"]["enclave_size"] + "i"
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert pod["securityContext"]["runAsNonRoot"]


def test_the_manifest_admits_what_is_signed() -> None:
    argv = gramine()["loader"]["argv"]
    marble = keyhouse_manifest()["Marbles"][argv[argv.index("--type") + 1]]
    package = keyhouse_manifest()["Packages"][marble["Package"]]
    assert package["ProductID"] == gramine()["sgx"]["isvprodid"]


@pytest.mark.acceptance
def test_the_workload_is_admitted_and_serves_with_its_certificate(tmp_path: Path) -> None:
    files, port = tmp_path / "app", free_port()
    app = tmp_path / "app.py"
    app.write_text((_EXAMPLE / "app.py").read_text("utf-8").replace(_FILES, str(files)))
    text = json.dumps(keyhouse_manifest()).replace(_FILES, str(files))
    identity = tmp_path / "identity.json"
    identity.write_text(json.dumps(keyhouse_manifest()["Packages"]["greeter"]))
    root = tmp_path / "root.pem"
    with Server(tmp_path / "state") as server:
        with closing(server.client()) as client:
            chain = client.get("/api/v2/quote").data["cert"].encode()
            root.write_bytes(load_pem_x509_certificates(chain)[-1].public_bytes(Encoding.PEM))
            assert client.set_manifest(text.encode()).status == 200
        words = gramine()["loader"]["argv"]
        given = {"/opt/example/app.py": str(app), "/opt/example/root.pem": str(root)}
        given |= {"1/bin/python3": sys.executable, "gramine": "simulation"}
        words = [given.get(word, word) for word in words[words.index("keyhouse.launcher") :]]
        machine = ["--simulated-machine", str(server.data), "--simulated-identity", str(identity)]
        launcher = subprocess.Popen(
            [*ISOLATED[:-1], words[0], *machine, *words[1:], str(port)],
            cwd=tmp_path,
            env={"KEYHOUSE_MARBLE_COORDINATOR_ADDR": f"127.0.0.1:{server.mesh_port}"},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert launcher.stdout is not None
            assert launcher.stdout.readline() == "serving\n"
            trust = ssl.create_default_context(cafile=str(root))
            with urllib.request.urlopen(f"https://127.0.0.1:{port}/", context=trust) as answer:
                assert answer.read() == b"Good morning from an enclave.\n"
        finally:
            launcher.terminate()
            launcher.communicate()
