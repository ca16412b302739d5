"""`keyhouse kube` against a real API server. No kubelet runs: the tests play its part."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, Self

import pytest
from support.cluster.server import KubernetesServer
from support.process.command import Ended, run
from support.process.helm import helm
from support.process.server import Client, Server, free_port, listens
from support.process.start import Started, start
from support.samples.deployment import manifest

from keyhouse.cli.kube.api.cluster import Cluster
from keyhouse.cli.kube.api.kubeconfig import read_access

_VALUES: Final[dict[str, Any]] = {
    "image": {"repository": "registry.example/keyhouse", "digest": f"sha256:{'a' * 64}"},
    "arguments": ["--platform", "simulation"],
}
_BACKUP: Final = {"backup": {"enabled": True}, "persistence": {"accessMode": "ReadWriteOnce"}}


class Kube:
    """Runs commands of the group in one namespace."""

    def __init__(self, kubernetes: KubernetesServer, folder: Path, namespace: str) -> None:
        self.kubernetes = kubernetes
        self.folder = folder
        self.namespace = namespace
        self.admin = kubernetes.cluster()
        self.kubeconfig = kubernetes.kubeconfig()

    def __call__(self, *words: str, kubeconfig: Path | None = None) -> Ended:
        env = {"KUBECONFIG": str(kubeconfig or self.kubeconfig), "PATH": "/usr/bin:/bin"}
        return run("kube", *words, "--namespace", self.namespace, env=env, folder=self.folder)

    def values(self, **more: Any) -> str:
        path = self.folder / "values.yaml"
        path.write_text(json.dumps({**_VALUES, **self.only_here(), **more}))
        return str(path)

    def only_here(self) -> dict[str, Any]:
        """Keep the policies of this test away from the pods of other tests."""
        labels = {"kubernetes.io/metadata.name": self.namespace}
        return {"injection": {"enabled": True, "namespaceSelector": {"matchLabels": labels}}}

    def changes(self, *words: str) -> dict[str, str]:
        ended = self(*words, "--json")
        assert ended.code == 0, ended.err
        changes = json.loads(ended.out)["changes"]
        return {f"{each['kind']} {each['name']}": each["change"] for each in changes}

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        versions = {"StatefulSet": "apps/v1", "Pod": "v1", "CronJob": "batch/v1"}
        version = versions.get(kind, "v1")
        return self.admin.get(version, kind, name, self.namespace)


@pytest.fixture
def kube(kubernetes: KubernetesServer, tmp_path: Path) -> Kube:
    return Kube(kubernetes, tmp_path, kubernetes.new_name("kube"))


def test_install_creates_all_objects_and_a_second_time_changes_nothing(kube: Kube) -> None:
    words = ("install", "--values", kube.values(**_BACKUP), "--wait", "0")
    first = kube.changes(*words)
    assert set(first.values()) == {"created"}
    assert {"StatefulSet keyhouse", "Service keyhouse", "CronJob keyhouse-backup"} <= first.keys()
    assert f"MutatingAdmissionPolicy keyhouse.{kube.namespace}" in first
    assert f"Namespace {kube.namespace}" in first
    second = kube.changes(*words)
    assert set(second.values()) == {"unchanged"}
    assert second.keys() == first.keys() - {f"Namespace {kube.namespace}"}


def test_a_dry_run_changes_nothing_and_prints_the_objects(kube: Kube) -> None:
    ended = kube("install", "--values", kube.values(), "--dry-run", "--json")
    assert ended.code == 0, ended.err
    objects = json.loads(ended.out)["objects"]
    assert "StatefulSet" in {each["kind"] for each in objects}
    assert kube.admin.get("v1", "Namespace", kube.namespace) is None
    kube.changes("install", "--values", kube.values(), "--wait", "0")
    before = kube.get("StatefulSet", "keyhouse")
    slow = kube.values(probes={"startup": {"failureThreshold": 900}})
    assert (
        kube.changes("upgrade", "--values", slow, "--dry-run")["StatefulSet keyhouse"] == "changed"
    )
    assert kube.get("StatefulSet", "keyhouse") == before


def test_upgrade_uses_the_recorded_values_and_deletes_what_the_chart_no_longer_has(
    kube: Kube,
) -> None:
    kube.changes("install", "--values", kube.values(**_BACKUP), "--wait", "0")
    assert set(kube.changes("upgrade", "--wait", "0").values()) == {"unchanged"}
    smaller = kube.values(persistence=_BACKUP["persistence"])
    changes = kube.changes("upgrade", "--values", smaller, "--wait", "0")
    assert changes["CronJob keyhouse-backup"] == "deleted"
    assert kube.get("CronJob", "keyhouse-backup") is None
    assert kube.get("PersistentVolumeClaim", "keyhouse-backup") is not None  # backups stay


def test_upgrade_of_nothing_names_the_command(kube: Kube) -> None:
    ended = kube("upgrade", "--wait", "0")
    assert ended.code == 1
    assert f"use keyhouse kube install --namespace {kube.namespace}" in ended.err


def claim(kube: Kube, name: str) -> None:
    thing = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "labels": {
                "app.kubernetes.io/name": "keyhouse",
                "app.kubernetes.io/instance": "keyhouse",
            },
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            # The size in the chart: with its controller, the StatefulSet has made the claim.
            "resources": {"requests": {"storage": "2Gi"}},
        },
    }
    kube.admin.apply(thing, kube.namespace, manager="statefulset-controller", force=True)


def remaining(kube: Kube) -> set[str]:
    from keyhouse.cli.kube.installation import installed
    from keyhouse.cli.kube.rendering.chart import Release

    release = Release("keyhouse", kube.namespace)
    return {each["kind"] for each in installed(kube.admin, release)}


def test_uninstall_keeps_the_state_unless_told_otherwise(kube: Kube) -> None:
    kube.changes("install", "--values", kube.values(**_BACKUP), "--wait", "0")
    claim(kube, "data-keyhouse-0")
    planned = kube.changes("uninstall", "--dry-run")
    assert "StatefulSet" in remaining(kube)
    assert "a dry run: nothing has changed" in kube("uninstall", "--dry-run").err
    changes = kube.changes("uninstall")
    assert planned == changes
    assert changes["PersistentVolumeClaim data-keyhouse-0"] == "kept"
    assert remaining(kube) == set()
    assert kube.get("PersistentVolumeClaim", "data-keyhouse-0") is not None
    assert kube.changes("uninstall").keys() == {
        "PersistentVolumeClaim data-keyhouse-0",
        "PersistentVolumeClaim keyhouse-backup",
    }
    changes = kube.changes("uninstall", "--delete-state")
    assert changes["PersistentVolumeClaim data-keyhouse-0"] == "deleted"
    assert changes["PersistentVolumeClaim keyhouse-backup"] == "kept"


def test_two_installations_of_one_name_do_not_share_policies(
    kubernetes: KubernetesServer, kube: Kube, tmp_path: Path
) -> None:
    other = Kube(kubernetes, tmp_path, kubernetes.new_name("kube"))
    for each in (kube, other):
        each.changes("install", "--values", each.values(), "--wait", "0")
    kube.changes("uninstall")
    assert remaining(kube) == set()
    assert "ValidatingAdmissionPolicy" in remaining(other)


def test_check_names_the_missing_part_and_since_when(kube: Kube) -> None:
    kube.changes("install", "--values", kube.values(), "--wait", "0")
    kube.admin.delete("v1", "Service", "keyhouse", kube.namespace)
    ended = kube("check", "--json")
    assert ended.code == 1
    found = {each["part"]: each for each in json.loads(ended.out)["findings"]}
    assert found["Service keyhouse"]["problem"] == "is missing"
    pods = found["StatefulSet keyhouse"]
    assert pods["problem"] == "0 of 1 pods are ready"
    assert pods["since"].startswith("20")
    shown = kube("check").out
    assert "Service keyhouse" in shown
    assert f"since {pods['since']}" in shown


def status(kube: Kube, kind: str, name: str, value: dict[str, Any]) -> None:
    """Write the status of an object, as a controller or a kubelet does."""
    version = "apps/v1" if kind == "StatefulSet" else "v1"
    space = "" if kind == "Node" else kube.namespace
    path = kube.admin.resource(version, kind).path(space, name)
    merge = "application/merge-patch+json"
    kube.admin.request("PATCH", f"{path}/status", name, body={"status": value}, media_type=merge)


def test_check_explains_a_pod_that_waits_for_its_image(kube: Kube) -> None:
    kube.changes("install", "--values", kube.values(), "--wait", "0")
    labels = {"app.kubernetes.io/name": "keyhouse", "app.kubernetes.io/instance": "keyhouse"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "keyhouse-pod", "labels": labels},
        "spec": {"containers": [{"name": "keyhouse", "image": "x"}]},
    }
    kube.admin.apply(pod, kube.namespace)
    since = "2026-11-27T10:00:00Z"
    waiting = {"reason": "ImagePullBackOff", "message": "no such digest"}
    status(
        kube,
        "Pod",
        "keyhouse-pod",
        {
            "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": since}],
            "containerStatuses": [
                {
                    "name": "keyhouse",
                    "image": "x",
                    "imageID": "",
                    "ready": False,
                    "restartCount": 0,
                    "state": {"waiting": waiting},
                }
            ],
        },
    )
    found = json.loads(kube("check", "--json").out)["findings"]
    part = "Pod keyhouse-pod, container keyhouse"
    (about,) = [each for each in found if each["part"] == part]
    assert about["problem"] == "ImagePullBackOff: no such digest"
    assert about["since"] == since


@contextmanager
def nodes(kube: Kube, **kinds: dict[str, Any]) -> Iterator[None]:
    """Give the cluster nodes with labels, resources, taints and conditions."""
    for name, kind in kinds.items():
        metadata = {"name": name, "labels": kind.get("labels", {})}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        kube.admin.apply(node, "")
        # The API server gives a new node the taint of a node that is not ready.
        spec = {"taints": kind.get("taints", []), "unschedulable": kind.get("cordoned", False)}
        path = kube.admin.resource("v1", "Node").path("", name)
        merge = "application/merge-patch+json"
        kube.admin.request("PATCH", path, name, body={"spec": spec}, media_type=merge)
        ready = {"type": "Ready", "status": kind.get("ready", "True"), "reason": "KubeletStopped"}
        ready["lastTransitionTime"] = "2026-11-27T10:00:00Z"
        amounts = kind.get("offers", {})
        status(
            kube,
            "Node",
            name,
            {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
        )
    try:
        yield
    finally:
        for name in kinds:
            kube.admin.delete("v1", "Node", name)


_NFD: Final = "feature.node.kubernetes.io/cpu-security"
_SGX_NODE: Final[dict[str, Any]] = {
    "offers": {"sgx.intel.com/epc": "8Gi", "sgx.intel.com/enclave": "20"}
}


def test_precheck_gives_a_reason_for_each_node(kube: Kube) -> None:
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    with nodes(
        kube,
        good=_SGX_NODE,
        plain={},
        unplugged={"labels": {f"{_NFD}.sgx.enabled": "true"}},
        small={"offers": {"sgx.intel.com/epc": "64Mi"}},
        cordoned={**_SGX_NODE, "cordoned": True},
        stopped={**_SGX_NODE, "ready": "False"},
        control={**_SGX_NODE, "taints": [taint]},
        arm={**_SGX_NODE, "labels": {"kubernetes.io/arch": "arm64"}},
        tdx={"labels": {f"{_NFD}.tdx.enabled": "true"}},
    ):
        ended = kube("precheck", "--json")
        shown = kube("precheck")
        for_tdx = kube.values(arguments=["--platform", "tdx"])
        judged = json.loads(kube("precheck", "--json", "--values", for_tdx).out)["nodes"]
    assert ended.code == shown.code == 0, ended.err
    reasons = {each["name"]: " ".join(each["reasons"]) for each in json.loads(ended.out)["nodes"]}
    assert reasons["good"] == ""
    assert "SGX is off in the firmware" in reasons["plain"]
    assert "no device plugin offers sgx.intel.com/epc" in reasons["unplugged"]
    assert "the EPC has 64 MiB, the coordinator needs 1024 MiB" in reasons["small"]
    assert "cordoned" in reasons["cordoned"]
    assert "not ready since 2026-11-27T10:00:00Z: KubeletStopped" in reasons["stopped"]
    assert "node-role.kubernetes.io/control-plane:NoSchedule" in reasons["control"]
    assert "the architecture is arm64" in reasons["arm"]
    assert "suitable" in shown.out
    suitable = {each["name"] for each in judged if not each["reasons"]}
    assert suitable == {"tdx"}


def test_precheck_without_a_suitable_node_is_refused(kube: Kube) -> None:
    with nodes(kube, plain={}):
        ended = kube("precheck")
        refused = kube("install", "--values", kube.values(arguments=[], sgx={"enabled": True}))
    assert ended.code == refused.code == 1
    assert "no node can run the coordinator" in ended.err
    assert "no node of 1 can run the coordinator; plain: nothing reports SGX" in refused.err
    assert kube.admin.get("v1", "Namespace", kube.namespace) is None


@pytest.mark.parametrize(
    ("key", "amount"),
    [
        ("sgx.intel.com/epc", "8Gi"),
        ("kubernetes.azure.com/sgx_epc_mem_in_MiB", "8192"),
        ("alibabacloud.com/sgx_epc_MiB", "8192"),
    ],
)
def test_install_uses_the_device_plugin_of_the_nodes(kube: Kube, key: str, amount: str) -> None:
    with nodes(kube, node={"offers": {key: amount}}):
        values = kube.values(arguments=[], sgx={"enabled": True})
        kube.changes("install", "--values", values, "--wait", "0")
    kept = kube.get("StatefulSet", "keyhouse")
    assert kept is not None
    (container,) = kept["spec"]["template"]["spec"]["containers"]
    expected = "1Gi" if key.startswith("sgx.intel") else "1024"
    assert container["resources"]["limits"][key] == expected


def test_an_upgrade_of_a_release_of_helm_names_helm_before_it_takes_over(kube: Kube) -> None:
    """The objects of helm as helm writes them: an update by the manager helm."""
    words = ("template", "keyhouse", "--namespace", kube.namespace)
    rendered = helm(*words, values=_VALUES)
    assert rendered.returncode == 0, rendered.stderr
    kube.admin.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": kube.namespace}}, ""
    )
    given = kube.kubernetes.kubectl(
        "--namespace",
        kube.namespace,
        "create",
        "--field-manager=helm",
        "-f",
        "-",
        text=rendered.stdout,
    )
    assert given.returncode == 0, given.stderr
    ended = kube("upgrade", "--wait", "0")
    assert "another program has installed keyhouse" in ended.err
    refused = kube("upgrade", "--values", kube.values(), "--wait", "0")
    assert refused.code == 1
    assert 'conflict with "helm"' in refused.err
    assert "--force-conflicts" in refused.err
    assert kube.get("ConfigMap", "keyhouse-installation") is None  # nothing has changed
    assert kube.get("ConfigMap", "keyhouse-marbles") is None
    taken = kube.changes("upgrade", "--values", kube.values(), "--wait", "0", "--force-conflicts")
    assert "deleted" not in taken.values()
    assert set(kube.changes("upgrade", "--wait", "0").values()) == {"unchanged"}


class Kubelet:
    """Plays the kubelet and the load balancer: runs the command of the pod on loopback.

    No kubelet runs here. The program of the pod is started with the arguments and variables of the
    pod, except for addresses and directories. Then readiness is written as a kubelet writes it.
    """

    def __init__(self, kube: Kube, data: Path, port: int) -> None:
        self._kube = kube
        self._data = data
        self._port = port
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._process: Started | None = None
        self.failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _run(self) -> None:
        access = read_access("", {"KUBECONFIG": str(self._kube.kubeconfig)})
        try:
            with closing(Cluster(access)) as cluster:
                self._play(cluster)
        except BaseException as error:  # noqa: BLE001 shown by the test
            self.failure = error

    def _play(self, cluster: Cluster) -> None:
        space = self._kube.namespace
        kept = None
        while kept is None and not self._stop.wait(0.05):
            kept = cluster.get("apps/v1", "StatefulSet", "keyhouse", space)
        assert kept is not None
        (container,) = kept["spec"]["template"]["spec"]["containers"]
        self._start(container)
        balancer = {"loadBalancer": {"ingress": [{"ip": "127.0.0.1"}]}}
        _patch_status(cluster, "v1", "Service", space, "keyhouse", balancer)
        if self._kube.kubernetes.has_controllers:
            while not self._stop.wait(0.05):
                if cluster.get("v1", "Pod", "keyhouse-0", space) is not None:
                    break
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": _TIME}
            status = {"phase": "Running", "conditions": [ready]}
            claim = "data-keyhouse-0"
            bound = {"phase": "Bound"}
            _patch_status(cluster, "v1", "PersistentVolumeClaim", space, claim, bound)
            _patch_status(cluster, "v1", "Pod", space, "keyhouse-0", status)
        else:
            counts = {
                "observedGeneration": kept["metadata"]["generation"],
                "replicas": 1,
                "readyReplicas": 1,
                "updatedReplicas": 1,
            }
            _patch_status(cluster, "apps/v1", "StatefulSet", space, "keyhouse", counts)

    def _start(self, container: dict[str, Any]) -> None:
        here = {
            "--data-dir": str(self._data),
            "--client-addr": f"127.0.0.1:{self._port}",
            "--mesh-addr": f"127.0.0.1:{free_port()}",
            "--metrics-addr": f"127.0.0.1:{free_port()}",
        }
        words = []
        for word in container["args"]:
            name, mark, _ = word.partition("=")
            words.append(f"{name}={here[name]}" if mark and name in here else word)
        variables = {each["name"]: each["value"] for each in container.get("env", [])}
        with (self._data.parent / "pod.log").open("ab") as log:
            self._process = start(words, output=log, errors=log, environment=variables)
        while not listens(self._port):
            if self._stop.is_set() or self._process.poll() is not None:
                raise AssertionError((self._data.parent / "pod.log").read_text()[-4000:])


_TIME: Final = "2026-11-27T10:00:00Z"


def _patch_status(
    cluster: Cluster, version: str, kind: str, space: str, name: str, value: dict[str, Any]
) -> None:
    path = cluster.resource(version, kind).path(space, name)
    cluster.request(
        "PATCH",
        f"{path}/status",
        name,
        body={"status": value},
        media_type="application/merge-patch+json",
    )


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A simulated machine: the identity of its coordinator is known before the installation."""
    data = tmp_path / "state"
    with Server(data):
        pass
    return data


def trust(data: Path) -> list[str]:
    folder = data / "simulation"
    return [
        "--attestation",
        str(folder / "attestation.json"),
        "--simulation-root",
        str(folder / "root.pem"),
    ]


def test_one_command_leads_from_nothing_to_a_verified_quote(kube: Kube, machine: Path) -> None:
    port = free_port()
    values = kube.values(service={"type": "LoadBalancer", "clientPort": port})
    with Kubelet(kube, machine, port) as kubelet:
        ended = kube("install", "--values", values, *trust(machine))
        assert kubelet.failure is None, kubelet.failure
        assert ended.code == 0, ended.err
        assert f"verified  the quote of 127.0.0.1:{port}" in ended.out
        assert "next: keyhouse manifest set manifest.json" in ended.err
        assert kube("check").code == 0 or not kube.kubernetes.has_controllers

        # The policies refuse every label until the marbles of the manifest are known.
        early = kube("marbles", *trust(machine))
        assert early.code == 1
        with closing(Client(port)) as client:
            assert client.set_manifest(manifest()).status == 200
        changes = kube.changes("marbles", *trust(machine))
        assert changes == {"ConfigMap keyhouse-marbles": "changed"}
        assert set(kube.changes("marbles", *trust(machine)).values()) == {"unchanged"}
        listed = kube.get("ConfigMap", "keyhouse-marbles")
        assert listed is not None
        assert listed["data"]["marbles"].split("\n") == sorted(json.loads(manifest())["Marbles"])

        name = f"keyhouse.{kube.namespace}"
        assert kube.changes("trust-bundle", *trust(machine)) == {
            f"ClusterTrustBundle {name}": "created"
        }
        assert set(kube.changes("trust-bundle", *trust(machine)).values()) == {"unchanged"}
        bundle = kube.admin.get("certificates.k8s.io/v1", "ClusterTrustBundle", name)
        assert bundle is not None
        root = run("certificate", "root", f"127.0.0.1:{port}", *trust(machine), "--context", "none")
        assert bundle["spec"]["trustBundle"] == root.out

        # An upgrade keeps the marbles.
        kube.changes("upgrade", "--wait", "0")
        kept = kube.get("ConfigMap", "keyhouse-marbles")
        assert kept is not None
        assert kept["data"] == listed["data"]


def test_another_identity_is_not_trusted_and_changes_no_bundle(
    kube: Kube, tmp_path: Path, machine: Path
) -> None:
    port = free_port()
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({"UniqueID": "ab" * 32}))
    given = ["--attestation", str(wrong), *trust(machine)[2:]]
    values = kube.values(service={"type": "LoadBalancer", "clientPort": port})
    with Kubelet(kube, machine, port):
        assert kube("install", "--values", values, *given).code == 4
        assert kube("trust-bundle", *given).code == 4
    name = f"keyhouse.{kube.namespace}"
    assert kube.admin.get("certificates.k8s.io/v1", "ClusterTrustBundle", name) is None


def test_without_an_identity_nothing_is_written(kube: Kube) -> None:
    for command in ("trust-bundle", "marbles"):
        ended = kube(command)
        assert ended.code == 2
        assert "no expected identity: pass --attestation" in ended.err


def test_a_coordinator_that_is_not_ready_in_time_is_named(kube: Kube) -> None:
    ended = kube("install", "--values", kube.values(), "--wait", "1")
    assert ended.code == 3
    assert "the coordinator was not ready after 1 seconds" in ended.err
    assert f"keyhouse kube check --namespace {kube.namespace} lists all" in ended.err


def test_a_forwarded_port_is_the_way_without_a_load_balancer(
    kube: Kube, tmp_path: Path, machine: Path
) -> None:
    """A stand-in for kubectl, because a forwarded port needs a kubelet."""
    kube.changes("install", "--values", kube.values(), "--wait", "0")
    programs = tmp_path / "bin"
    programs.mkdir()
    with Server(machine) as server:
        with closing(server.client()) as client:
            assert client.set_manifest(manifest()).status == 200
        stand_in = programs / "kubectl"
        stand_in.write_text(
            f'#!/bin/sh\necho "$@" > {tmp_path}/words\n'
            f'echo "Forwarding from 127.0.0.1:{server.port} -> 4433"\nexec sleep 1000\n'
        )
        stand_in.chmod(0o755)
        words = ("kube", "marbles", "--namespace", kube.namespace, *trust(machine), "--json")
        env = {"KUBECONFIG": str(kube.kubeconfig), "PATH": f"{programs}:/usr/bin:/bin"}
        ended = run(*words, env=env)
    assert ended.code == 0, ended.err
    expected = (
        f"--namespace {kube.namespace} --context loopback port-forward service/keyhouse :client"
    )
    assert (tmp_path / "words").read_text().strip() == expected


def test_without_any_way_the_option_is_named(kube: Kube, machine: Path) -> None:
    kube.changes("install", "--values", kube.values(), "--wait", "0")
    env = {"KUBECONFIG": str(kube.kubeconfig), "PATH": "/nowhere"}
    ended = run("kube", "marbles", "--namespace", kube.namespace, *trust(machine), env=env)
    assert ended.code == 3
    assert "pass --address" in ended.err
