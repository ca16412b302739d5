"""What the chart makes of the values that people set is what Kubernetes takes, and is closed."""

import asyncio
import hashlib
import json
import os
import re
import subprocess
import tomllib
from contextlib import closing
from pathlib import Path
from shutil import which
from typing import Any, Final

import jsonschema_rs
import kubernetes_validate
import pytest
from support.peers.postgres import PASSWORD, PostgresServer
from support.process.helm import CHART, DIGEST, GIVEN, NATIVE, SGX, check, helm, refusal, template
from support.process.server import Server
from support.process.start import on_path
from support.samples.deployment import manifest

from keyhouse.base.errors import KeyhouseError
from keyhouse.cli.kube.rendering.chart import Release, chart
from keyhouse.server.process.settings import read_settings

_GRAMINE: Final = CHART.parents[1] / "gramine" / "keyhouse.manifest.template"
_PCCS: Final = "https://pccs.example:8081/sgx/certification/v4/"
_AESM: Final = {"image": {"repository": "registry.example/aesm", "digest": DIGEST}}
_BACKUP: Final = {"backup": {"enabled": True}, "persistence": {"accessMode": "ReadWriteOnce"}}
_STORE: Final[dict[str, Any]] = {
    "store": {"existingSecret": "database"},
    "networkPolicy": {"egress": [{"ports": [{"port": 5432}, {"port": 53, "protocol": "UDP"}]}]},
}
_ROOT: Final = "-----BEGIN CERTIFICATE-----\nTUlJQg==\n-----END CERTIFICATE-----\n"
_RECORDED: Final = Path(__file__).with_name("rendered_by_helm.json")
_SETS: Final[dict[str, dict[str, Any]]] = {
    "a simulation": NATIVE,
    "an enclave, with the node's AESM": SGX,
    "an enclave, with an AESM in the pod": {
        **GIVEN,
        "sgx": {
            "enabled": True,
            "deviceGroups": [107, 108],
            "aesm": _AESM,
            "pccs": {"url": _PCCS, "caConfigMap": "pccs-ca"},
        },
        "nodeSelector": {"intel.feature.node.kubernetes.io/sgx": "true"},
        "tolerations": [{"key": "sgx", "operator": "Exists", "effect": "NoSchedule"}],
        "networkPolicy": {
            "egress": [{"to": [{"ipBlock": {"cidr": "192.0.2.8/32"}}], "ports": [{"port": 8081}]}]
        },
    },
    "backups": {**SGX, **_BACKUP},
    "backups of a database": {
        **NATIVE,
        **_STORE,
        "filesSecret": "database-ca",
        "persistence": {"accessMode": "ReadWriteOnce"},
        "backup": {"enabled": True, "storeSecret": "database-backup"},
    },
    "volumes that exist": {
        **NATIVE,
        "persistence": {"existingClaim": "state"},
        "backup": {"enabled": True, "existingClaim": "backups", "schedule": "@daily", "keep": 3},
    },
    "storage classes": {
        **SGX,
        "persistence": {"accessMode": "ReadWriteOnce", "storageClass": "fast", "size": "8Gi"},
        "backup": {"enabled": True, "storageClass": "slow", "size": "1Ti"},
    },
    "reached through ingress-nginx": {
        **SGX,
        "ingress": {
            "enabled": True,
            "hostname": "keys.example",
            "annotations": {"nginx.ingress.kubernetes.io/ssl-passthrough": "false", "a.b/c": "d"},
        },
    },
    "reached through a Gateway": {
        **SGX,
        "tlsRoute": {
            "enabled": True,
            "hostname": "keys.example",
            "parentRefs": [{"name": "edge", "namespace": "edge", "sectionName": "tls"}],
        },
    },
    "watched by Prometheus": {
        **NATIVE,
        "metrics": {"serviceMonitor": True, "rules": True},
        "networkPolicy": {"metricsFrom": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}]},
    },
    "unwatched and without a policy": {
        **NATIVE,
        "metrics": {"enabled": False},
        "networkPolicy": {"enabled": False},
    },
    "a manifest and files": {**NATIVE, "startupManifest": "first", "filesSecret": "files"},
    "three on a database": {**NATIVE, **_STORE, "filesSecret": "database-ca"},
    "enclaves on a database": {**SGX, **_STORE},
    "several in each pod": {
        **NATIVE,
        "store": {"existingSecret": "database", "replicasPerPod": 3},
        "networkPolicy": {
            **_STORE["networkPolicy"],
            "metricsFrom": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}],
        },
        "metrics": {"serviceMonitor": True},
    },
    "five that ask for standbys": {
        **NATIVE,
        "store": {"existingSecret": "database", "replicas": 5, "standbys": 2},
        "networkPolicy": {"enabled": False},
    },
    "guests of SEV-SNP": {**NATIVE, "amdCollateral": "amd"},
    "an enclave that admits guests of SEV-SNP": {**SGX, "amdCollateral": "amd"},
    "older nodes of AKS": {**GIVEN, "sgx": {"enabled": True, "vendor": "azure", "epcMiB": 512}},
    "nodes of Alibaba, with injection": {
        **GIVEN,
        "sgx": {"enabled": True, "vendor": "alibaba"},
        "injection": {"enabled": True},
    },
    "an own device plugin": {
        **GIVEN,
        "sgx": {"enabled": True, "resourceKey": "example.com/epc"},
        "injection": {"enabled": True, "epcMiB": 20},
    },
    "an own text for the PCCS": {
        **GIVEN,
        "sgx": {"enabled": True, "aesm": _AESM, "qcnl": '{"pccs_url": "https://a.example/"}\n'},
    },
    "injection of a pinned root": {
        **SGX,
        "injection": {
            "enabled": True,
            "trust": {"rootCertificate": _ROOT},
            "namespaceSelector": {"matchLabels": {"marbles": "yes"}},
        },
    },
    "injection by the webhook": {
        **SGX,
        "injection": {"enabled": True, "webhook": {"enabled": True, "replicas": 3}},
    },
    "injection of a trust bundle and the launcher": {
        **NATIVE,
        "injection": {
            "enabled": True,
            "trust": {"bundle": "k-keyhouse.default"},
            "launcher": {"repository": "registry.example/launcher", "digest": DIGEST},
            "resources": {"example.com/epc": "5Mi"},
        },
    },
    "slow nodes": {**NATIVE, "probes": {"startup": {"failureThreshold": 900}}},
    "what a site adds": {
        **NATIVE,
        "global": {},
        "labels": {"team": "keys", "cost-centre": "42"},
        "podAnnotations": {"sgx.intel.com/quote-provider": "aesm"},
        "imagePullSecrets": [{"name": "registry"}],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "4Gi"}},
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
        "service": {"type": "LoadBalancer", "annotations": {"a.b/c": "d"}},
        "host": {"KEYHOUSE_LOG_FORMAT": "json", "KEYHOUSE_DNS_NAMES": "keys.example,127.0.0.1"},
    },
}
every_set: Final = pytest.mark.parametrize("values", _SETS.values(), ids=_SETS)


def pods(made: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the specification of each pod: of the coordinator, of a backup, of the webhook."""
    kinds = {"StatefulSet", "CronJob", "Deployment"}
    specs = [each["spec"] for each in made.values() if each["kind"] in kinds]
    return [spec.get("jobTemplate", {"spec": spec})["spec"]["template"]["spec"] for spec in specs]


def coordinator(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the coordinator's pod and container."""
    pod = template(values)["StatefulSet k-keyhouse"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    return pod, container


def quantity(text: str) -> int:
    """Return bytes."""
    return int(text[:-2]) << {"Mi": 20, "Gi": 30}[text[-2:]]


def gramine() -> dict[str, Any]:
    """Return Gramine's manifest with words in its places."""
    text = _GRAMINE.read_text(encoding="utf-8").replace("= {{", '= "{{').replace("}}\n", '}}"\n')
    return tomllib.loads(text)


@every_set
def test_kubernetes_knows_every_field(values: dict[str, Any]) -> None:
    for thing in template(values).values():
        check(thing)


def digest(made: dict[str, dict[str, Any]]) -> str:
    """Return SHA-256 (hex) of objects, whatever the version of the chart."""
    text = json.dumps(made, sort_keys=True).replace(chart().version, "VERSION")
    return hashlib.sha256(text.encode()).hexdigest()


def by_command(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what ``keyhouse kube`` makes as the release of ``template``."""
    made = chart().render(values, Release("k", "default", "Helm"))
    return {f"{each['kind']} {each['metadata']['name']}": each for each in made}


@every_set
def test_the_command_makes_the_objects_that_helm_makes(values: dict[str, Any]) -> None:
    assert by_command(values) == template(values)


def test_the_command_makes_what_helm_has_made_where_helm_is_missing() -> None:
    if which("helm") and os.environ.get("KEYHOUSE_RECORD"):
        recorded = {name: digest(template(values)) for name, values in _SETS.items()}
        _RECORDED.write_text(json.dumps(recorded, indent=2) + "\n", encoding="utf-8")
    recorded = json.loads(_RECORDED.read_text(encoding="utf-8"))
    assert {name: digest(by_command(values)) for name, values in _SETS.items()} == recorded


@every_set
def test_every_pod_keeps_to_the_restricted_standard_but_for_the_aesm_of_the_node(
    values: dict[str, Any],
) -> None:
    for pod in pods(template(values)):
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] == ("serviceAccountName" in pod)
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["image"].endswith(f"@{DIGEST}")
            assert container["resources"]["limits"]["memory"]
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            volumes = {volume["name"] for volume in pod.get("volumes", [])}
            assert mounted <= volumes | {"data"}
        kinds = {kind for volume in pod.get("volumes", []) for kind in volume if kind != "name"}
        by_node = values.get("sgx", {}).get("enabled") and "aesm" not in values["sgx"]
        of_node = {"hostPath"} if by_node and "initContainers" in pod else set()
        assert kinds - {"configMap", "emptyDir", "persistentVolumeClaim", "secret"} == of_node


@every_set
def test_the_services_reach_the_coordinator_alone(values: dict[str, Any]) -> None:
    made = template(values)
    services = {name: each for name, each in made.items() if each["kind"] == "Service"}
    webhook = services.pop("Service k-keyhouse-webhook", None)
    selectors = [each["spec"]["selector"] for each in services.values()]
    labels = made["StatefulSet k-keyhouse"]["spec"]["template"]["metadata"]["labels"]
    assert all(selector.items() <= labels.items() for selector in selectors)
    if webhook is not None:
        pod = made["Deployment k-keyhouse-webhook"]["spec"]["template"]["metadata"]["labels"]
        assert webhook["spec"]["selector"].items() <= pod.items()
        assert not webhook["spec"]["selector"].items() <= labels.items()
    for job in (each for each in made.values() if each["kind"] == "CronJob"):
        labels = job["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
        assert not any(selector.items() <= labels.items() for selector in selectors)


def test_helm_finds_nothing_to_say_of_the_chart() -> None:
    said = helm("lint", "--strict", values=_SETS["an enclave, with an AESM in the pod"])
    assert said.returncode == 0, said.stdout + said.stderr


def test_a_field_that_kubernetes_does_not_know_is_found() -> None:
    made = template(_SETS["reached through a Gateway"])
    for name, error in (
        ("StatefulSet k-keyhouse", kubernetes_validate.ValidationError),
        ("TLSRoute k-keyhouse", jsonschema_rs.ValidationError),
    ):
        thing = made[name]
        with pytest.raises(error):
            check({**thing, "spec": {**thing["spec"], "replica": 1}})


def test_an_enclave_is_told_by_variables_that_its_manifest_passes_through() -> None:
    _, container = coordinator(_SETS["enclaves on a database"])
    assert not {"args", "command"} & set(container)  # they are measured
    url = "postgresql://u:p@192.0.2.9/d"
    given = {each["name"]: each.get("value", url) for each in container["env"]}
    passed = gramine()["loader"]["env"]
    assert all(passed[name] == {"passthrough": True} for name in given)
    settings = read_settings([], given)
    assert settings.store is not None
    assert settings.store.reveal().decode() == url
    assert settings.client_addr == ("", 4433)
    assert settings.mesh_addr == ("", 2001)
    assert settings.metrics_addr == ("", 9944)


def test_probes_ask_what_tells_a_dead_one_from_one_without_its_store() -> None:
    _, watched = coordinator(NATIVE)
    _, unwatched = coordinator({**NATIVE, "metrics": {"enabled": False}})
    probes = ("startupProbe", "readinessProbe", "livenessProbe")
    asked = [watched[probe]["httpGet"] for probe in probes]
    assert asked == [{"path": path, "port": "metrics"} for path in ("/live", "/ready", "/live")]
    status = {"path": "/api/v2/status", "port": "client", "scheme": "HTTPS"}
    assert [unwatched[probe]["httpGet"] for probe in probes] == [status] * 3


def test_an_enclave_gets_the_size_that_its_manifest_asks_for() -> None:
    pod, container = coordinator(_SETS["an enclave, with the node's AESM"])
    limits = container["resources"]["limits"]
    assert limits["sgx.intel.com/epc"] == gramine()["sgx"]["enclave_size"] + "i"
    assert limits["sgx.intel.com/enclave"] == 1
    # What is paged out of the enclave counts as the pod's memory.
    assert quantity(limits["memory"]) > quantity(limits["sgx.intel.com/epc"])
    assert "sgx.intel.com/provision" not in limits  # the AESM's, not the coordinator's
    assert {"name": "data", "mountPath": "/data"} in container["volumeMounts"]
    assert pod["volumes"][0]["hostPath"] == {"path": "/var/run/aesmd", "type": "Directory"}
    native, _ = coordinator(NATIVE)
    assert "sgx.intel.com" not in json.dumps(native)


def test_the_collateral_of_amd_is_where_the_coordinator_looks_for_it() -> None:
    native, enclave = (coordinator({**values, "amdCollateral": "amd"}) for values in (NATIVE, SGX))
    for pod, container in (native, enclave):
        mount = {"name": "amd", "mountPath": "/amd-collateral", "readOnly": True}
        assert mount in container["volumeMounts"]
        assert {"name": "amd", "configMap": {"name": "amd"}} in pod["volumes"]
    settings = read_settings(native[1]["args"][1:], {})
    assert settings.amd_collateral == Path("/amd-collateral")
    assert "KEYHOUSE_AMD_COLLATERAL" not in json.dumps(enclave)  # its signed image names it


def test_the_aesm_of_the_pod_runs_before_the_enclave_and_asks_the_pccs() -> None:
    values = _SETS["an enclave, with an AESM in the pod"]
    pod, container = coordinator(values)
    state, aesm = pod["initContainers"]
    assert state["command"][-1] == "/data/state"
    assert (aesm["name"], aesm["restartPolicy"]) == ("aesm", "Always")
    assert aesm["resources"]["limits"]["sgx.intel.com/provision"] == 1
    shared = {"name": "aesm", "mountPath": "/var/run/aesmd"}
    assert shared in aesm["volumeMounts"]
    assert shared in container["volumeMounts"]
    assert pod["securityContext"]["supplementalGroups"] == [107, 108]
    settings = json.loads(
        template(values)["ConfigMap k-keyhouse-qcnl"]["data"]["sgx_default_qcnl.conf"]
    )
    assert (settings["pccs_url"], settings["use_secure_cert"]) == (_PCCS, True)


def test_tls_is_passed_through_to_the_client_api() -> None:
    ingress = template(_SETS["reached through ingress-nginx"])["Ingress k-keyhouse"]
    assert ingress["metadata"]["annotations"] == {
        "nginx.ingress.kubernetes.io/ssl-passthrough": "true",  # not what the values say
        "nginx.ingress.kubernetes.io/backend-protocol": "HTTPS",
        "a.b/c": "d",
    }
    (rule,) = ingress["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert path["backend"]["service"] == {"name": "k-keyhouse", "port": {"name": "client"}}
    route = template(_SETS["reached through a Gateway"])["TLSRoute k-keyhouse"]
    (rule,) = route["spec"]["rules"]
    assert rule["backendRefs"] == [{"name": "k-keyhouse", "port": 4433}]
    assert route["spec"]["hostnames"] == [rule_host := ingress["spec"]["rules"][0]["host"]]
    assert rule_host == "keys.example"


def back_up(**places: Path) -> None:
    """Run the script of the CronJob, which keeps three, with other directories."""
    text = (CHART / "templates" / "backup.yaml").read_text(encoding="utf-8")  # without helm too
    script = re.search(r"args:\n +- \|\n(.+?)\n +securityContext", text, re.DOTALL)
    assert script is not None
    words = script[1].replace("{{ .Values.backup.keep }}", "3")
    for name in ("data", "backups", "database"):
        assert f" /{name}" in words
        words = re.sub(rf"(?<=[ (])/{name}\b", str(places[name]), words)
    with on_path() as path:
        done = subprocess.run(
            ["/bin/sh", "-euc", words],
            env={"PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr


def test_the_backup_of_the_cron_job_is_one_of_the_running_coordinator(
    tmp_path: Path,
) -> None:
    state, backups = tmp_path / "state", tmp_path / "backups"
    complete = [f"2026010{day}T021700Z" for day in range(1, 5)]
    killed, running = "20260105T021700Z", "20260106T021700Z"  # neither has digests
    for name in (*complete, killed, running, "by-hand"):
        (backups / name).mkdir(parents=True)
    for name in complete:
        (backups / name / "SHA256SUMS").touch()
    os.utime(backups / killed, (0, 0))
    with Server(state) as server:
        with closing(server.client()) as client:
            assert client.set_manifest(manifest()).status == 200
        back_up(data=tmp_path, backups=backups, database=tmp_path / "none")
    *older, newest, other = sorted(each.name for each in backups.iterdir())
    assert (older, other) == ([*complete[2:], running], "by-hand")
    assert {each.name for each in (backups / newest).iterdir()} >= {"journal.db", "SHA256SUMS"}
    assert (backups / newest).stat().st_mode & 0o777 == 0o700


def test_the_backup_of_the_cron_job_is_one_of_the_database_where_that_has_the_state(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    url = postgres.url(asyncio.run(postgres.database())).reveal().decode()
    database, backups = tmp_path / "database", tmp_path / "backups"
    database.mkdir()
    backups.mkdir()
    (database / "url").write_text(url.replace(f":{PASSWORD}", "") + "\n")
    (database / "password").write_text(PASSWORD + "\n")
    with Server(tmp_path / "state", environment={"KEYHOUSE_STORE": url}) as server:
        with closing(server.client()) as client:
            assert client.set_manifest(manifest()).status == 200
        back_up(data=tmp_path, backups=backups, database=database)
    (made,) = backups.iterdir()
    assert {each.name for each in made.iterdir()} >= {"journal.db", "sealed_key", "SHA256SUMS"}
    (tmp_path / "state" / "sealed_key").unlink()  # as where no processor can seal
    made.rename(backups / "20260101T021700Z")
    back_up(data=tmp_path, backups=backups, database=database)
    assert not (max(backups.iterdir()) / "sealed_key").exists()


def refused(values: dict[str, Any]) -> str:
    """Return the error of ``keyhouse kube`` about values."""
    with pytest.raises(KeyhouseError) as error:
        by_command(values)
    return str(error.value)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"injection": {"trust": {"rootCertificate": _ROOT, "bundle": "a"}}}, "injection.trust.b"),
        ({"injection": {"webhook": {"enabled": True}}}, "injection.enabled: must be true"),
        ({"injection": {"launcher": {"repository": "r"}}}, "injection.launcher.digest: must be"),
        ({"sgx": {"enabled": True, "qcnl": "{}"}}, "sgx.qcnl: is for the AESM in the pod"),
        ({"arguments": ["--platform", "gramine"]}, "arguments: must be empty with sgx.enabled"),
        ({"startupManifest": "first"}, "startupManifest: must be empty"),
        ({"filesSecret": "files"}, "filesSecret: must be empty"),
        ({"host": {"KEYHOUSE_COLLATERAL": "/x"}}, "host.KEYHOUSE_COLLATERAL: does not reach"),
        ({"sgx": {"enabled": True, "aesm": _AESM}}, "sgx.pccs.url: must be set"),
        ({"sgx": {"enabled": True, "pccs": {"url": _PCCS}}}, "sgx.pccs.url: is for the AESM"),
        ({"sgx": {"enabled": False}}, "arguments: must name at least --platform"),
        ({"backup": {"enabled": True}}, "persistence.accessMode: must be ReadWriteOnce or"),
        ({"ingress": {"enabled": True}}, "ingress.hostname: must be set"),
        ({"tlsRoute": {"enabled": True, "hostname": "a.example"}}, "tlsRoute.parentRefs: must"),
    ],
    ids=lambda each: each.partition(" ")[0] if isinstance(each, str) else "",
)
def test_values_that_contradict_each_other_are_refused_in_words(
    values: dict[str, Any], said: str
) -> None:
    assert said in refused({**SGX, **values})
    assert said in refusal({**SGX, **values})


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"metrics": {"enabled": False}}, "metrics.enabled: must be true"),
        ({"persistence": {"existingClaim": "one"}}, "persistence.existingClaim: must be empty"),
        (_BACKUP, "backup.storeSecret: must be set"),
        ({"networkPolicy": {}}, "networkPolicy.egress: must allow the database"),
        (
            {
                "arguments": [],
                "sgx": {"enabled": True},
                "store": {"existingSecret": "database", "replicasPerPod": 2},
            },
            "store.replicasPerPod: must be 1 with sgx.enabled",
        ),
        ({"store": {"replicasPerPod": 2}}, "store.replicasPerPod: must be 1 without"),
        (
            {"store": {}, "backup": {"storeSecret": "one"}},
            "backup.storeSecret: must be empty without",
        ),
    ],
    ids=lambda each: each.partition(" ")[0] if isinstance(each, str) else "",
)
def test_a_shared_state_is_not_mixed_with_what_one_pod_has(
    values: dict[str, Any], said: str
) -> None:
    assert said in refused({**NATIVE, **_STORE, **values})
    assert said in refusal({**NATIVE, **_STORE, **values})


def test_the_pods_of_a_shared_state_are_apart_and_one_at_a_time_is_taken_away() -> None:
    made = template({**NATIVE, **_STORE})
    kept = made["StatefulSet k-keyhouse"]["spec"]
    pod, (container,) = kept["template"]["spec"], kept["template"]["spec"]["containers"]
    selector = kept["selector"]["matchLabels"]
    assert (kept["replicas"], kept["podManagementPolicy"]) == (3, "Parallel")
    spread = pod["topologySpreadConstraints"]
    assert [each["whenUnsatisfiable"] for each in spread] == ["DoNotSchedule", "ScheduleAnyway"]
    assert all(each["labelSelector"]["matchLabels"] == selector for each in spread)
    budget = made["PodDisruptionBudget k-keyhouse"]["spec"]
    assert budget == {"maxUnavailable": 1, "selector": {"matchLabels": selector}}
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("readiness", "liveness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "readiness": "/ready",
        "liveness": "/live",
    }
    assert [each["metadata"]["name"] for each in kept["volumeClaimTemplates"]] == ["data"]
    url, standbys = container["env"][:2]
    assert url["valueFrom"] == {"secretKeyRef": {"name": "database", "key": "url"}}
    given = {"KEYHOUSE_STORE": "postgresql://u:p@db.example/d", standbys["name"]: "2"}
    settings = read_settings(container["args"][1:], given)
    assert (settings.store_standbys, settings.replicas) == (2, 1)
    assert "PodDisruptionBudget k-keyhouse" not in template(NATIVE)


def test_several_coordinators_of_a_pod_have_metrics_of_their_own() -> None:
    values = _SETS["several in each pod"]
    _, container = coordinator(values)
    given = {each["name"]: each.get("value", "postgresql://u@h/d") for each in container["env"]}
    settings = read_settings(container["args"][1:], given)
    assert settings.replicas == 3
    assert settings.metrics_addr is not None
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    metrics = {"metrics": 9944, "metrics-2": 9945, "metrics-3": 9946}
    assert ports == {"client": 4433, "mesh": 2001, **metrics}
    assert settings.metrics_addr.port == metrics["metrics"]
    made = template(values)
    served = made["Service k-keyhouse-metrics"]["spec"]["ports"]
    assert {each["targetPort"]: each["port"] for each in served} == metrics
    asked = made["ServiceMonitor k-keyhouse"]["spec"]["endpoints"]
    assert [each["port"] for each in asked] == list(metrics)
    *_, allowed = made["NetworkPolicy k-keyhouse"]["spec"]["ingress"]
    assert [each["port"] for each in allowed["ports"]] == list(metrics)


def test_a_backup_of_a_database_reaches_it_from_the_node_of_the_first_pod() -> None:
    values = _SETS["backups of a database"]
    made = template(values)
    pod = made["CronJob k-keyhouse-backup"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (near,) = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    labels = near["labelSelector"]["matchLabels"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "k-keyhouse-0"
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert volumes["data"]["persistentVolumeClaim"] == {"claimName": "data-k-keyhouse-0"}
    assert volumes["database"]["secret"]["secretName"] == "database-backup"
    mounted = {each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    assert mounted == {"/data", "/backups", "/database", "/etc/keyhouse"}
    policies = [made[f"NetworkPolicy k-keyhouse{each}"]["spec"] for each in ("", "-backup")]
    assert policies[0]["egress"] == policies[1]["egress"]
    alone = template(_SETS["backups"])["NetworkPolicy k-keyhouse-backup"]["spec"]
    assert "egress" not in alone


@pytest.mark.parametrize(
    "values",
    [
        {"store": {"existingSecret": "database", "replicas": 0}},
        {"store": {"url": "postgresql://u:p@db.example/d"}},
        {"image": {"repository": "registry.example/keyhouse", "digest": "latest"}},
        {"image": {"repository": "registry.example/keyhouse"}},
        {"arguments": ["--data-dir=/x"]},
        {"arguments": ["--amd-collateral", "/x"]},
        {"host": {"KEYHOUSE_DATA_DIR": "/x"}},
        {"host": {"PYTHONPATH": "/x"}},
        {"replicas": 2},
        {"sgx": {"enable": True}},
        {"sgx": {"pccs": {"url": "http://pccs.example:8081/sgx/certification/v4/"}}},
        {"labels": {"app.kubernetes.io/name": "other"}},
        {"backup": {"keep": 0}},
        {"persistence": {"size": "much"}},
        {"persistence": {"accessMode": "ReadWriteAny"}},
        {"service": {"clientPort": "4433"}},
        {"tolerations": [{}], "networkPolicy": {"egress": ["all"]}},
        {"sgx": {"vendor": "amd"}},
        {"sgx": {"resourceKey": "no slash"}},
        {"probes": {"startup": {"initialDelay": 1}}},
        {"injection": {"trust": {"rootCertificate": "-----BEGIN PRIVATE KEY-----"}}},
        {"injection": {"launcher": {"command": "python3"}}},
    ],
    ids=json.dumps,
)
def test_values_that_must_not_be_are_refused(values: dict[str, Any]) -> None:
    assert refused({**NATIVE, **values}).startswith("the values of the chart: ")
    assert "schema" in refusal({**NATIVE, **values})
