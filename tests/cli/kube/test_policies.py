"""The rules of the chart for pods, as policies of a real API server and as a webhook."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import pytest
from support.cluster.pods import (
    DIGEST,
    MARBLES,
    ROOT,
    TEMPLATES,
    Admission,
    install,
    pod,
    settle,
    template,
    values,
)
from support.cluster.server import KubernetesServer
from support.cluster.webhook import running_webhook

from keyhouse.cli.kube.api.cluster import Cluster
from keyhouse.cli.kube.api.errors import ClusterRefusedError

_OWN: Final = "keyhouse/marble"
_THEIRS: Final = "marblerun/marbletype"
_EPC: Final = "sgx.intel.com/epc"

Pod = dict[str, Any]


@pytest.fixture(scope="module", params=["policies", "webhook"])
def admission(
    kubernetes: KubernetesServer,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Admission]:
    admin, namespace = kubernetes.cluster(), kubernetes.new_name("policies")
    is_webhook = request.param == "webhook"
    launcher = {"repository": "registry.example/launcher", "digest": DIGEST}
    given = values(launcher=launcher, webhook={"enabled": is_webhook})
    install(admin, namespace, given, *MARBLES)
    made = Admission(admin, namespace)
    with ExitStack() as stack:
        if is_webhook:
            folder = tmp_path_factory.mktemp("webhook")
            stack.enter_context(running_webhook(kubernetes, namespace, folder))
        settle(made.is_active)
        yield made


def variables(container: Pod) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in container.get("env", [])}


def mounts(container: Pod) -> dict[str, str]:
    return {each["mountPath"]: each["name"] for each in container.get("volumeMounts", [])}


_SUFFIXES: Final = {"TYPE", "COORDINATOR_ADDR", "DNS_NAMES", "UUID_FILE"}
_ALL: Final = {f"{kind}_MARBLE_{suffix}" for kind in ("KEYHOUSE", "EDG") for suffix in _SUFFIXES}


@pytest.mark.parametrize("label", [_OWN, _THEIRS])
@pytest.mark.parametrize("marble", ["backend", "frontend", "Database_1"])
def test_a_label_gives_the_pod_everything_for_an_activation(
    admission: Admission, label: str, marble: str
) -> None:
    made = admission.create(pod({label: marble}))
    (container,) = made["spec"]["containers"]
    given = variables(container)
    assert given.keys() == _ALL
    space = admission.namespace
    for kind in ("KEYHOUSE", "EDG"):
        assert given[f"{kind}_MARBLE_TYPE"] == marble
        assert given[f"{kind}_MARBLE_COORDINATOR_ADDR"] == f"keyhouse.{space}.svc:2001"
        names = f"{marble},{marble}.{space},{marble}.{space}.svc"
        expected = names if marble != "Database_1" else "localhost"
        assert given[f"{kind}_MARBLE_DNS_NAMES"] == expected
        assert given[f"{kind}_MARBLE_UUID_FILE"] == "/run/keyhouse/uuid"
    assert mounts(container) == {"/run/keyhouse": "keyhouse-marble"}
    assert container["resources"]["limits"] == {"sgx.intel.com/enclave": "1", _EPC: "10Mi"}
    assert container["resources"]["requests"] == container["resources"]["limits"]
    (volume,) = made["spec"]["volumes"]
    (source,) = volume["projected"]["sources"]
    items = {each["path"]: each["fieldRef"]["fieldPath"] for each in source["downwardAPI"]["items"]}
    assert items["uuid"] == "metadata.uid"
    assert items["root.pem"] == "metadata.annotations['keyhouse/root-certificate']"
    assert made["metadata"]["annotations"]["keyhouse/root-certificate"] == ROOT
    assert {"key": _EPC, "operator": "Exists", "effect": "NoSchedule"} in made["spec"][
        "tolerations"
    ]


@pytest.mark.parametrize("labels", [{}, {"app": "backend"}, {"keyhouse.example/marble": "x"}])
def test_a_pod_without_a_label_stays_as_it_is(admission: Admission, labels: dict[str, str]) -> None:
    made = admission.create(pod(labels))
    (container,) = made["spec"]["containers"]
    assert not {"env", "volumeMounts"} & container.keys()
    assert container["resources"] == {}
    assert not {"volumes"} & made["spec"].keys()


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ({_OWN: "fronted"}, "no marble fronted; the nearest marble is frontend"),
        ({_OWN: "Frontend"}, "no marble Frontend; the nearest marble is frontend"),
        ({_THEIRS: "bakend"}, "no marble bakend; the nearest marble is backend"),
        ({_OWN: "database"}, "the nearest marble is Database_1"),
        ({_OWN: "backend", _THEIRS: "frontend"}, "name different marbles"),
        ({"keyhouse/marbel": "backend"}, "the label keyhouse/marbel is unknown to Keyhouse"),
        ({"marblerun/marbleType": "backend"}, "the label marblerun/marbleType is unknown"),
        ({"keyhouse/container": "app"}, "no name of a marble: set the label keyhouse/marble"),
        ({_OWN: "backend", "keyhouse/container": "ap"}, "no container ap; its containers are app"),
        ({_THEIRS: "backend", "marblerun/marblecontainer": "x"}, "the pod has no container x"),
        ({_OWN: "backend", "keyhouse/resources": "off"}, "are enabled or disabled"),
        ({_THEIRS: "backend", "marblerun/resource-injection": "no"}, "are enabled or disabled"),
        ({_OWN: "backend", "keyhouse/launcher": "enabled"}, "the container needs a command"),
        ({_OWN: ""}, "no name of a marble"),
    ],
    ids=lambda each: json.dumps(each) if isinstance(each, dict) else "",
)
def test_a_wrong_label_is_refused_with_the_reason(
    admission: Admission, labels: dict[str, str], text: str
) -> None:
    assert text in admission.refusal(pod(labels))


@pytest.mark.parametrize("label", ["keyhouse/container", "marblerun/marblecontainer"])
def test_a_named_container_alone_is_changed(admission: Admission, label: str) -> None:
    marble = {"keyhouse/container": _OWN, "marblerun/marblecontainer": _THEIRS}[label]
    made = admission.create(pod({marble: "backend", label: "b"}, {"name": "a"}, {"name": "b"}))
    first, second = made["spec"]["containers"]
    assert variables(first) == {}
    assert first["resources"] == {}
    assert variables(second).keys() == _ALL


def test_without_a_name_all_containers_are_changed_but_no_init_container(
    admission: Admission,
) -> None:
    init = [
        {"name": "init", "image": "i"},
        {"name": "side", "image": "i", "restartPolicy": "Always"},
    ]
    made = admission.create(
        pod({_OWN: "backend"}, {"name": "a"}, {"name": "b"}, initContainers=init)
    )
    assert all(variables(each).keys() == _ALL for each in made["spec"]["containers"])
    assert all(variables(each) == {} for each in made["spec"]["initContainers"])


@pytest.mark.parametrize("selected", ["init", "side"])
def test_an_init_or_sidecar_container_is_changed_by_its_name(
    admission: Admission, selected: str
) -> None:
    init = [
        {"name": "init", "image": "i"},
        {"name": "side", "image": "i", "restartPolicy": "Always"},
    ]
    labels = {_OWN: "backend", "keyhouse/container": selected}
    made = admission.create(pod(labels, {"name": "a"}, initContainers=init))
    changed = [c["name"] for c in made["spec"]["initContainers"] if variables(c).keys() == _ALL]
    assert changed == [selected]
    assert variables(made["spec"]["containers"][0]) == {}


@pytest.mark.parametrize("name", ["KEYHOUSE_MARBLE_DNS_NAMES", "EDG_MARBLE_DNS_NAMES"])
def test_a_variable_of_the_pod_has_precedence_in_both_spellings(
    admission: Admission, name: str
) -> None:
    env = [{"name": name, "value": "own.example"}, {"name": "OTHER", "value": "1"}]
    made = admission.create(pod({_OWN: "backend"}, {"name": "a", "env": env}))
    given = variables(made["spec"]["containers"][0])
    assert given[name] == "own.example"
    assert {n for n in given if n.endswith("DNS_NAMES")} == {name}
    assert given["OTHER"] == "1"
    assert len(given) == 6 + 2


def test_a_variable_from_a_secret_stays(admission: Admission) -> None:
    source = {"secretKeyRef": {"name": "s", "key": "k"}}
    env = [{"name": "EDG_MARBLE_TYPE", "valueFrom": source}]
    made = admission.create(pod({_THEIRS: "backend"}, {"name": "a", "env": env}))
    kept = [e for e in made["spec"]["containers"][0]["env"] if e["name"].endswith("_TYPE")]
    assert kept == env


def test_own_volumes_mounts_and_tolerations_stay(admission: Admission) -> None:
    own = {"key": "own", "operator": "Exists", "effect": "NoExecute"}
    sgx = {"key": _EPC, "operator": "Exists"}
    made = admission.create(
        pod(
            {_OWN: "backend"},
            {"name": "a", "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
            volumes=[{"name": "data", "emptyDir": {}}],
            tolerations=[own, sgx],
        )
    )
    assert [each["name"] for each in made["spec"]["volumes"]] == ["data", "keyhouse-marble"]
    mounted = mounts(made["spec"]["containers"][0])
    assert mounted == {"/data": "data", "/run/keyhouse": "keyhouse-marble"}
    tolerated = made["spec"]["tolerations"]
    assert tolerated[:2] == [own, sgx]
    assert sum(each.get("key") == _EPC for each in tolerated) == 1


def test_an_own_mount_at_the_same_place_stays(admission: Admission) -> None:
    mount = {"name": "data", "mountPath": "/run/keyhouse"}
    made = admission.create(
        pod(
            {_OWN: "backend"},
            {"name": "a", "volumeMounts": [mount]},
            volumes=[{"name": "data", "emptyDir": {}}],
        )
    )
    assert mounts(made["spec"]["containers"][0]) == {"/run/keyhouse": "data"}


@pytest.mark.parametrize("field", ["limits", "requests"])
def test_own_resources_have_precedence(admission: Admission, field: str) -> None:
    resources = {"limits": {_EPC: "512Mi"}} if field == "limits" else {}
    resources |= {"requests": {"cpu": "1"}}
    made = admission.create(pod({_OWN: "backend"}, {"name": "a", "resources": resources}))
    given = made["spec"]["containers"][0]["resources"]
    assert given["limits"][_EPC] == ("512Mi" if field == "limits" else "10Mi")
    assert given["requests"] == {"cpu": "1", **given["limits"]}


@pytest.mark.parametrize(
    "labels",
    [
        {_OWN: "backend", "keyhouse/resources": "disabled"},
        {_THEIRS: "backend", "marblerun/resource-injection": "disabled"},
    ],
    ids=["keyhouse", "marblerun"],
)
def test_the_injection_of_resources_can_be_turned_off(
    admission: Admission, labels: dict[str, str]
) -> None:
    made = admission.create(pod(labels))
    assert made["spec"]["containers"][0]["resources"] == {}
    assert not any(each.get("key") == _EPC for each in made["spec"].get("tolerations", []))
    assert variables(made["spec"]["containers"][0]).keys() == _ALL


def test_the_launcher_comes_from_an_image_volume_before_the_command(admission: Admission) -> None:
    labels = {_OWN: "backend", "keyhouse/launcher": "enabled", "keyhouse/container": "b"}
    made = admission.create(
        pod(labels, {"name": "a"}, {"name": "b", "command": ["/app", "--x"], "args": ["y"]})
    )
    first, second = made["spec"]["containers"]
    assert "command" not in first
    assert second["command"][0] == "/opt/keyhouse/bin/python3"
    assert second["command"][-3:] == ["--", "/app", "--x"]
    assert second["args"] == ["y"]
    assert mounts(second)["/opt/keyhouse"] == "keyhouse-launcher"
    (volume,) = [v for v in made["spec"]["volumes"] if v["name"] == "keyhouse-launcher"]
    assert volume["image"]["reference"] == f"registry.example/launcher@{DIGEST}"


def test_the_uuid_differs_between_pods_and_stays_with_the_pod(admission: Admission) -> None:
    first, second = (admission.create(pod({_OWN: "backend"})) for _ in range(2))
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    name = first["metadata"]["name"]
    kept = admission.admin.get("v1", "Pod", name, admission.namespace)
    assert kept is not None
    assert kept["metadata"]["uid"] == first["metadata"]["uid"]


def test_a_repeated_apply_changes_nothing(admission: Admission) -> None:
    thing = pod({_OWN: "backend"})
    thing["metadata"]["name"] = "repeated"
    first = admission.admin.apply(thing, admission.namespace)
    second = admission.admin.apply(thing, admission.namespace)
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_wrong_label_in_a_template_is_refused_before_any_pod(
    admission: Admission, kind: str
) -> None:
    assert "the nearest marble is backend" in admission.refusal(template({_OWN: "bakend"}, kind))
    made = admission.create(template({_OWN: "backend"}, kind))
    assert made["kind"] == kind


def test_a_removed_marble_does_not_block_other_changes_of_its_deployment(
    admission: Admission,
) -> None:
    made = admission.create(template({_OWN: "frontend"}, "Deployment"))
    name = made["metadata"]["name"]
    path = admission.admin.resource("apps/v1", "Deployment").path(admission.namespace, name)
    listed = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "keyhouse-marbles"},
    }
    admin = admission.admin
    try:
        data = {"marbles": "backend"}
        admin.apply({**listed, "data": data}, admission.namespace, manager="keyhouse-sync")
        settle(lambda: _is_refused(admission, pod({_OWN: "frontend"})))
        scaled = {"spec": {"replicas": 3}}
        merge = "application/merge-patch+json"
        admin.request("PATCH", path, name, body=scaled, media_type=merge)
        changed = {"spec": {"template": {"metadata": {"labels": {_OWN: "frontent"}}}}}
        with pytest.raises(ClusterRefusedError, match="no marble frontent"):
            admin.request("PATCH", path, name, body=changed, media_type=merge)
    finally:
        data = {"marbles": "\n".join(MARBLES)}
        admin.apply({**listed, "data": data}, admission.namespace, manager="keyhouse-sync")
        settle(lambda: not _is_refused(admission, pod({_OWN: "frontend"})))


def _is_refused(admission: Admission, thing: Pod) -> bool:
    try:
        admission.create(thing, dryRun="All")
    except ClusterRefusedError:
        return True
    return False


def test_the_pods_of_a_deployment_are_changed(
    kubernetes: KubernetesServer, admission: Admission
) -> None:
    if not kubernetes.has_controllers:
        pytest.skip("the directory of the binaries has no kube-controller-manager")
    thing = template({_OWN: "backend", "own": "deployment"}, "Deployment")
    thing["spec"]["replicas"] = 2
    admission.create(thing)
    pods: list[Pod] = []

    def are_made() -> bool:
        pods[:] = admission.admin.list("v1", "Pod", admission.namespace, "own=deployment")
        return len(pods) == 2

    settle(are_made)
    assert all(variables(each["spec"]["containers"][0]).keys() == _ALL for each in pods)


def test_before_the_first_manifest_a_label_is_refused_with_the_next_step(
    admin: Cluster, namespace: str
) -> None:
    install(admin, namespace, values())
    made = Admission(admin, namespace)
    settle(lambda: _is_refused(made, pod({_OWN: "backend"})))
    assert "run keyhouse kube marbles" in made.refusal(pod({_OWN: "backend"}))
    made.create(pod({"app": "unlabelled"}))


def test_a_namespace_outside_of_the_selector_is_not_concerned(
    admission: Admission, namespace: str
) -> None:
    made = Admission(admission.admin, namespace).create(pod({_OWN: "nobody"}))
    assert "volumes" not in made["spec"]


def test_a_trust_bundle_replaces_the_pinned_root(admin: Cluster, namespace: str) -> None:
    install(admin, namespace, values(trust={"bundle": "keyhouse.keys"}), "backend")
    made = Admission(admin, namespace)
    settle(made.is_active)
    created = made.create(pod({_OWN: "backend"}))
    sources = created["spec"]["volumes"][0]["projected"]["sources"]
    bundle = next(each["clusterTrustBundle"] for each in sources if "clusterTrustBundle" in each)
    assert bundle == {"name": "keyhouse.keys", "path": "root.pem"}
    assert not created["metadata"].get("annotations")


def test_the_message_survives_a_manifest_with_many_marbles(admin: Cluster, namespace: str) -> None:
    many = [f"service-{number:03}-of-a-large-company" for number in range(200)]
    install(admin, namespace, values(), "backend", *many)
    made = Admission(admin, namespace)
    settle(made.is_active)
    wrong = "service-007-of-a-large-compani"
    assert re.search("nearest marble is service-0[07]", made.refusal(pod({_OWN: wrong})))
