"""The pods of the chart and of the shop under podman, after admission by a real API server.

podman is not a kubelet: the test gives the pods addresses of loopback, and writes the files that a
kubelet projects. scripts/check-pods builds the image, and runs this test.
"""

import json
import os
import ssl
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from support.cluster.pods import Admission, install, settle, values
from support.cluster.server import KubernetesServer
from support.cluster.webhook import address_of, has_bundle, token_of
from support.process.command import run
from support.process.server import PATIENCE, free_port, listens

from keyhouse.cli.kube.api.cluster import Cluster
from keyhouse.cli.kube.api.errors import ClusterRefusedError
from keyhouse.cli.kube.installation import apply, plan
from keyhouse.cli.kube.rendering.chart import Release

_SHOP: Final = Path(__file__).parents[3] / "examples" / "kubernetes" / "shop"
_MARBLES: Final = ("database", "orders", "web")
_UNKNOWN: Final = frozenset({"affinity", "topologySpreadConstraints", "nodeName"})
"""Members of a pod that concern the scheduler only."""

Pod = dict[str, Any]


class Podman:
    """podman, with the image for development. Skips without both."""

    def __init__(self, variable: str = "KEYHOUSE_TESTS_IMAGE") -> None:
        self._words = os.environ.get("KEYHOUSE_TESTS_PODMAN", "").split()
        self.image = os.environ.get(variable, "")
        if not self._words or not self.image:
            pytest.skip("KEYHOUSE_TESTS_PODMAN is not set: scripts/check-pods sets it")

    def __call__(self, *words: str) -> str:
        """Return the output of podman."""
        ended = subprocess.run([*self._words, *words], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, f"{words}: {ended.stdout}{ended.stderr}"
        return ended.stdout

    @contextmanager
    def playing(self, pod: Pod, folder: Path, *more: Pod) -> Iterator[None]:
        """Run a pod, with further objects such as ConfigMaps, until the end of the block."""
        title = pod["metadata"]["name"]
        spec = {key: each for key, each in pod["spec"].items() if key not in _UNKNOWN}
        spec["hostNetwork"] = True
        for container in spec["containers"]:
            container.pop("lifecycle", None)
            container |= {"image": self.image, "imagePullPolicy": "Never"}
            # The test waits in place of the probes. No cgroup limits the container, and a port of
            # the host needs no mapping.
            for name in ("startupProbe", "readinessProbe", "livenessProbe", "resources", "ports"):
                container.pop(name, None)
        metadata = {"name": title, "labels": pod["metadata"].get("labels", {})}
        played = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        file = folder / f"{title}.yaml"
        file.write_text(yaml.safe_dump_all([*more, played]))
        self("play", "kube", "--network", "host", str(file))
        try:
            yield
        except BaseException as error:
            for container in spec["containers"]:
                error.add_note(self("logs", f"{title}-{container['name']}"))
            raise
        finally:
            self("pod", "rm", "--force", title)


@pytest.fixture
def podman() -> Podman:
    return Podman()


def await_true(condition: Callable[[], bool]) -> None:
    """Wait until ``condition`` holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def await_port(port: int) -> None:
    await_true(lambda: listens(port))


def coordinator(admin: Cluster, namespace: str, ports: dict[str, int]) -> Pod:
    """Return the pod of the StatefulSet, as its controller makes it, on loopback."""
    kept = admin.get("apps/v1", "StatefulSet", "keyhouse", namespace)
    assert kept is not None
    template = kept["spec"]["template"]
    spec = template["spec"]
    (container,) = spec["containers"]
    here = {f"--{name}-addr": f"127.0.0.1:{port}" for name, port in ports.items()}
    container["args"] = [
        f"{name}={here[name]}" if name in here else word
        for word in container["args"]
        for name in [word.partition("=")[0]]
    ]
    claim = {"claimName": f"{namespace}-data"}
    spec["volumes"] = [*spec.get("volumes", ()), {"name": "data", "persistentVolumeClaim": claim}]
    metadata = {**template["metadata"], "name": f"{namespace}-keyhouse"}
    return {"metadata": metadata, "spec": spec}


def marble(pod: Pod, folder: Path, root: str, mesh: int, ports: dict[str, int]) -> Pod:
    """Return a pod after admission with addresses of loopback, and with the projected files."""
    folder.mkdir()
    (folder / "root.pem").write_text(root)
    (folder / "uuid").write_text(pod["metadata"]["uid"])
    for each in (folder, *folder.iterdir()):
        each.chmod(0o755)
    (container,) = pod["spec"]["containers"]
    here = {
        "8443": str(ports[container["name"]]),
        **{f"{name}:8443": f"127.0.0.1:{port}" for name, port in ports.items()},
    }
    container["args"] = [here.get(word, word) for word in container["args"]]
    for each in container["env"]:
        if each["name"].endswith("_COORDINATOR_ADDR"):
            each["value"] = f"127.0.0.1:{mesh}"
    for volume in pod["spec"]["volumes"]:
        if volume.pop("projected", None) is not None:
            volume["hostPath"] = {"path": str(folder), "type": "Directory"}
    return pod


def admitted(admin: Cluster, namespace: str, deployment: Pod) -> Pod:
    """Create the pod of a Deployment; return the pod after admission."""
    template = deployment["spec"]["template"]
    name = f"{namespace}-{deployment['metadata']['name']}"
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"]}
    pod["metadata"] = {**template["metadata"], "name": name}
    path, made = admin.resource("v1", "Pod").path(namespace), list[Pod]()

    def is_changed() -> bool:
        try:
            made[:] = [admin.request("POST", path, name, body=pod, query={"dryRun": "All"})]
        except ClusterRefusedError:
            return False
        return "env" in made[0]["spec"]["containers"][0]

    settle(is_changed)
    created = admin.request("POST", path, name, body=pod)
    assert isinstance(created, dict)
    return created


def back_up(podman: Podman, admin: Cluster, namespace: str, folder: Path) -> None:
    """Run the pod of the CronJob beside the running coordinator."""
    kept = admin.get("batch/v1", "CronJob", "keyhouse-backup", namespace)
    assert kept is not None
    template = kept["spec"]["jobTemplate"]["spec"]["template"]
    name = f"{namespace}-backup"
    for volume in template["spec"]["volumes"]:
        claim = f"{namespace}-{volume['name']}"
        volume["persistentVolumeClaim"] = {"claimName": claim}
    # A kubelet gives the volume to the group of the pod (fsGroup).
    podman("volume", "create", "--opt", "o=uid=65532,gid=65532", f"{namespace}-backups")
    with podman.playing({**template, "metadata": {"name": name}}, folder):
        assert podman("wait", f"{name}-backup").strip() == "0"
    listed = ("--volume", f"{namespace}-backups:/backups", "--entrypoint", "find", podman.image)
    files = podman("run", "--rm", "--network", "host", *listed, "/backups", "-name", "SHA256SUMS")
    assert len(files.split()) == 1


def order(browser: ssl.SSLContext, page: str, item: str) -> str:
    form = urllib.parse.urlencode({"item": item}).encode()
    with urllib.request.urlopen(page, form, context=browser):  # noqa: S310 a page of this test
        pass
    with urllib.request.urlopen(page, context=browser) as answer:  # noqa: S310
        return str(answer.read().decode())


def test_the_pods_of_the_chart_and_of_the_shop_run(
    podman: Podman, kubernetes: KubernetesServer, admin: Cluster, namespace: str, tmp_path: Path
) -> None:
    rendered = kubernetes.kubectl("kustomize", str(_SHOP))
    assert rendered.returncode == 0, rendered.stderr
    objects = [each for each in yaml.safe_load_all(rendered.stdout) if each]
    deployments = {e["metadata"]["name"]: e for e in objects if e["kind"] == "Deployment"}
    (program,) = [each for each in objects if each["kind"] == "ConfigMap"]
    labels = {"kubernetes.io/metadata.name": namespace}
    bundle = f"keyhouse.{namespace}"
    values = {
        "image": {"repository": "registry.example/keyhouse-dev", "digest": f"sha256:{'a' * 64}"},
        "arguments": ["--platform", "simulation"],
        "persistence": {"accessMode": "ReadWriteOnce"},
        "backup": {"enabled": True},
        "injection": {
            "enabled": True,
            "namespaceSelector": {"matchLabels": labels},
            "trust": {"bundle": bundle},
        },
    }
    planned = plan(admin, Release("keyhouse", namespace), values)
    list(apply(admin, planned, dry_run=False, force=False))

    own = {name: free_port() for name in ("client", "mesh", "metrics")}
    ports = {name: free_port() for name in _MARBLES}
    container = f"{namespace}-keyhouse-keyhouse"
    with ExitStack() as stack:
        for name in ("data", "backups"):
            stack.callback(podman, "volume", "rm", "--force", f"{namespace}-{name}")
        stack.enter_context(podman.playing(coordinator(admin, namespace, own), tmp_path))
        await_port(own["client"])
        with urllib.request.urlopen(f"http://127.0.0.1:{own['metrics']}/ready") as answer:
            assert answer.status == 200
        for name in ("attestation.json", "root.pem", "collateral.json"):
            content = podman("exec", container, "cat", f"/data/state/simulation/{name}")
            (tmp_path / name).write_text(content)
        trust = [
            *("--attestation", str(tmp_path / "attestation.json")),
            *("--simulation-root", str(tmp_path / "root.pem")),
        ]
        host = f"127.0.0.1:{own['client']}"
        manifest = str(_SHOP / "manifest.yaml")
        ended = run("manifest", "set", manifest, host, *trust, "--context", "none")
        assert ended.code == 0, ended.err
        env = {"KUBECONFIG": str(kubernetes.kubeconfig())}
        for command in ("marbles", "trust-bundle"):
            words = ("--namespace", namespace, "--address", host, *trust)
            ended = run("kube", command, *words, env=env)
            assert ended.code == 0, ended.err
        found = admin.get("certificates.k8s.io/v1", "ClusterTrustBundle", bundle)
        assert found is not None
        root = found["spec"]["trustBundle"]
        for name in _MARBLES:
            pod = admitted(admin, namespace, deployments[name])
            pod = marble(pod, tmp_path / name, root, own["mesh"], ports)
            stack.enter_context(podman.playing(pod, tmp_path, program))
            await_port(ports[name])

        browser = ssl.create_default_context(cadata=root)
        browser.check_hostname = False  # the browser asks for the name of a Service
        page = f"https://127.0.0.1:{ports['web']}/"
        assert "<li>apples</li>" in order(browser, page, "apples")

        back_up(podman, admin, namespace, tmp_path)

        # Another process of the coordinator opens the state on the volume.
        podman("kill", "--signal", "KILL", container)
        podman("wait", container)
        podman("start", container)
        await_port(own["client"])
        status = run("status", host, *trust, "--context", "none", "--json")
        assert status.code == 0, status.err
        assert json.loads(status.out)["code"] == 3
        assert "<li>plums</li>" in order(browser, page, "plums")


def test_the_pod_of_the_webhook_runs_from_the_image_for_production(
    kubernetes: KubernetesServer, admin: Cluster, namespace: str, tmp_path: Path
) -> None:
    podman = Podman("KEYHOUSE_TESTS_PRODUCTION_IMAGE")
    install(admin, namespace, values(webhook={"enabled": True}), "backend")
    deployment = admin.get("apps/v1", "Deployment", "keyhouse-webhook", namespace)
    policies = admin.get("v1", "ConfigMap", "keyhouse-webhook", namespace)
    assert deployment is not None
    assert policies is not None
    folder = tmp_path / "account"
    folder.mkdir()
    (folder / "token").write_text(token_of(admin, namespace, "keyhouse-webhook"))
    (folder / "namespace").write_text(namespace)
    (folder / "ca.crt").write_bytes(kubernetes.authority_file.read_bytes())
    for each in (folder, *folder.iterdir()):
        each.chmod(0o755)
    spec = deployment["spec"]["template"]["spec"]
    spec["volumes"].append({"name": "account", "hostPath": {"path": str(folder)}})
    (container,) = spec["containers"]
    place = "/var/run/secrets/kubernetes.io/serviceaccount"
    container["volumeMounts"].append({"name": "account", "mountPath": place})
    address, port = address_of(admin, namespace)
    server = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": kubernetes.port}
    container["env"] = [{"name": name, "value": str(value)} for name, value in server.items()]
    container["args"] = [
        f"--listen={address}:{port}" if word.startswith("--listen=") else word
        for word in container["args"]
    ]
    about = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "keyhouse-webhook"}}
    pod = {"metadata": {"name": f"{namespace}-webhook"}, "spec": spec}
    with podman.playing(pod, tmp_path, {**about, "data": policies["data"]}):
        await_true(lambda: has_bundle(admin, namespace))
        settle(Admission(admin, namespace).is_active)
