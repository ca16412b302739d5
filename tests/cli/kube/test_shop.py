"""The shop of the examples: from the objects of kubectl to the page in a browser."""

import json
import ssl
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from support.cluster.server import KubernetesServer
from support.process.command import run
from support.process.server import Server, free_port, listens
from support.process.start import start

from keyhouse.cli.kube.api.cluster import Cluster
from keyhouse.cli.kube.api.errors import ClusterRefusedError
from keyhouse.cli.kube.installation import apply, plan
from keyhouse.cli.kube.rendering.chart import Release

_SHOP: Final = Path(__file__).parents[3] / "examples" / "kubernetes" / "shop"
_VALUES: Final[dict[str, Any]] = {
    "image": {"repository": "registry.example/keyhouse", "digest": f"sha256:{'a' * 64}"},
    "arguments": ["--platform", "simulation"],
}


@contextmanager
def container(
    pod: dict[str, Any], folder: Path, root: str, mesh: int, ports: dict[str, int]
) -> Iterator[None]:
    """Play the kubelet: start the command of the pod, with paths and addresses of this machine."""
    (found,) = pod["spec"]["containers"]
    folder.mkdir()
    (folder / "root.pem").write_text(root)
    (folder / "uuid").write_text(pod["metadata"]["uid"])
    here = {
        "keyhouse": "",
        "python3": sys.executable,
        "/run/keyhouse/root.pem": str(folder / "root.pem"),
        "8443": str(ports[found["name"]]),
        **{f"{name}:8443": f"127.0.0.1:{port}" for name, port in ports.items()},
        **{f"/shop/{path.name}": str(path) for path in _SHOP.glob("*.py")},
    }
    words = [here.get(word, word) for word in (*found["command"], *found["args"])]
    variables = {each["name"]: each["value"] for each in found["env"]}
    assert variables["KEYHOUSE_MARBLE_UUID_FILE"] == "/run/keyhouse/uuid"
    for kind in ("KEYHOUSE", "EDG"):
        variables[f"{kind}_MARBLE_UUID_FILE"] = str(folder / "uuid")
        variables[f"{kind}_MARBLE_COORDINATOR_ADDR"] = f"127.0.0.1:{mesh}"
    with (folder / "log").open("wb") as log:
        process = start(words[1:], output=log, errors=log, environment=variables, folder=folder)
    try:
        while not listens(ports[found["name"]]):
            assert process.poll() is None, (folder / "log").read_text()
        yield
    finally:
        process.kill()
        process.wait()


def create(admin: Cluster, namespace: str, deployment: dict[str, Any]) -> dict[str, Any]:
    """Create the pod of a Deployment, as its controller does; return the pod after admission."""
    template = deployment["spec"]["template"]
    name = deployment["metadata"]["name"]
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"]}
    pod["metadata"] = {**template["metadata"], "name": name}
    path = admin.resource("v1", "Pod").path(namespace)
    made = admin.request("POST", path, name, body=pod)
    assert isinstance(made, dict)
    return made


def test_from_the_objects_of_kubectl_to_the_page_in_a_browser(
    kubernetes: KubernetesServer, admin: Cluster, namespace: str, tmp_path: Path
) -> None:
    rendered = kubernetes.kubectl("kustomize", str(_SHOP))
    assert rendered.returncode == 0, rendered.stderr
    objects = [each for each in yaml.safe_load_all(rendered.stdout) if each]
    deployments = {e["metadata"]["name"]: e for e in objects if e["kind"] == "Deployment"}
    release = Release("keyhouse", namespace)
    labels = {"kubernetes.io/metadata.name": namespace}
    selector = {"namespaceSelector": {"matchLabels": labels}}
    trust = {"trust": {"bundle": f"keyhouse.{namespace}"}}
    values = {**_VALUES, "injection": {"enabled": True, **selector, **trust}}
    list(apply(admin, plan(admin, release, values), dry_run=False, force=False))

    ports = {name: free_port() for name in deployments}
    manifest = json.dumps(yaml.safe_load((_SHOP / "manifest.yaml").read_text(encoding="utf-8")))
    with Server(tmp_path / "state") as server, ExitStack() as stack:
        with closing(server.client()) as client:
            assert client.set_manifest(manifest.encode()).status == 200
        simulation = tmp_path / "state" / "simulation"
        words = [
            *("--namespace", namespace, "--address", f"127.0.0.1:{server.port}"),
            *("--attestation", str(simulation / "attestation.json")),
            *("--simulation-root", str(simulation / "root.pem")),
        ]
        env = {"KUBECONFIG": str(kubernetes.kubeconfig())}
        for command in ("marbles", "trust-bundle"):
            ended = run("kube", command, *words, env=env)
            assert ended.code == 0, ended.err
        name = f"keyhouse.{namespace}"
        bundle = admin.get("certificates.k8s.io/v1", "ClusterTrustBundle", name)
        assert bundle is not None
        root = bundle["spec"]["trustBundle"]
        for name in ("database", "orders", "web"):
            pod = _create_when_active(admin, namespace, deployments[name])
            sources = pod["spec"]["volumes"][-1]["projected"]["sources"]
            assert sources[1]["clusterTrustBundle"]["name"] == f"keyhouse.{namespace}"
            stack.enter_context(container(pod, tmp_path / name, root, server.mesh_port, ports))
        browser = ssl.create_default_context(cadata=root)
        browser.check_hostname = False  # the browser asks for the name of a Service
        page = f"https://127.0.0.1:{ports['web']}/"
        for item in ("apples", "<plums>"):
            form = urllib.parse.urlencode({"item": item}).encode()
            with urllib.request.urlopen(page, form, context=browser):
                pass
        with urllib.request.urlopen(page, context=browser) as answer:
            shown = answer.read().decode()
        assert "<li>apples</li>" in shown
        assert "plums>" not in shown
        outsider = ssl.create_default_context()
        outsider.check_hostname, outsider.verify_mode = False, ssl.CERT_NONE
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(f"https://127.0.0.1:{ports['database']}/", context=outsider)
        assert error.value.code == 403
        error.value.close()

    wrong = deployments["database"]["spec"]["template"]["metadata"]["labels"]
    wrong["keyhouse/marble"] = "datbase"
    with pytest.raises(ClusterRefusedError, match="the nearest marble is database"):
        create(admin, namespace, deployments["database"])


def _create_when_active(
    admin: Cluster, namespace: str, deployment: dict[str, Any]
) -> dict[str, Any]:
    """Create the pod after the API server has read the policies and the marbles."""
    for _ in range(2000):
        try:
            made = create(admin, namespace, deployment)
        except ClusterRefusedError:
            continue
        if "env" in made["spec"]["containers"][0]:
            return made
        admin.delete("v1", "Pod", made["metadata"]["name"], namespace)
    raise AssertionError("the API server has not read the policies")
