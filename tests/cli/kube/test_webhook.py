"""The webhook beside the policies of the API server: equal results, its certificate, its rights."""

import base64
import copy
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from support.cluster.pods import (
    CASES,
    DIGEST,
    MARBLES,
    TEMPLATES,
    Admission,
    install,
    pod,
    settle,
    values,
)
from support.cluster.server import KubernetesServer
from support.cluster.webhook import address_of, has_bundle, running_webhook, token_of

from keyhouse.base.errors import RefusedError, UnavailableError
from keyhouse.cli.kube.api.cluster import Cluster
from keyhouse.cli.kube.api.errors import FORBIDDEN, ClusterRefusedError
from keyhouse.cli.kube.health import findings
from keyhouse.cli.kube.installation import apply, installed, plan, policy_name, uninstall
from keyhouse.cli.kube.rendering.chart import Release
from keyhouse.cli.kube.webhook.bundle import KINDS, VERSION, publish
from keyhouse.cli.kube.webhook.certificate import Rotation, issue, present_time, unexpired
from keyhouse.cli.kube.webhook.policies import read_policies
from keyhouse.cli.kube.webhook.serving import Webhook

_LABELLED: Final = pod({"keyhouse/marble": "backend"})
_MINUTE: Final = timedelta(minutes=1)
_MERGE: Final = "application/merge-patch+json"


def with_webhook(**injection: Any) -> dict[str, Any]:
    return values(webhook={"enabled": True}, **injection)


@pytest.fixture(scope="module")
def both(
    kubernetes: KubernetesServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Admission, Admission]]:
    """A namespace with the policies, and a namespace with the webhook."""
    admin = kubernetes.cluster()
    launcher = {"repository": "registry.example/launcher", "digest": DIGEST}
    made = []
    with ExitStack() as stack:
        for is_webhook in (False, True):
            namespace = kubernetes.new_name("both")
            given = values(launcher=launcher, webhook={"enabled": is_webhook})
            install(admin, namespace, given, *MARBLES)
            if is_webhook:
                folder = tmp_path_factory.mktemp("webhook")
                stack.enter_context(running_webhook(kubernetes, namespace, folder))
            made.append(Admission(admin, namespace))
            settle(made[-1].is_active)
        policies, webhook = made
        yield policies, webhook


def result(admission: Admission, thing: dict[str, Any]) -> bytes:
    """Return the object after admission, or the refusal, without parts of the namespace alone."""
    try:
        made = admission.create(thing, dryRun="All")
    except ClusterRefusedError as error:
        # Each of both begins with its own name.
        text = f"{error.status} {error.message.rpartition('request: ')[2]}"
    else:
        own = {"uid", "name", "creationTimestamp", "managedFields"}
        metadata = {name: each for name, each in made["metadata"].items() if name not in own}
        text = json.dumps({**made, "metadata": metadata}, sort_keys=True)
        for name in ("uid", "name"):  # also in the labels of a Job
            text = text.replace(made["metadata"][name], name)
    return text.replace(admission.namespace, "NAMESPACE").encode()


@pytest.mark.parametrize("name", CASES)
def test_policies_and_webhook_give_equal_bytes(
    both: tuple[Admission, Admission], name: str
) -> None:
    policies, webhook = (result(each, CASES[name]) for each in both)
    assert webhook == policies


def test_the_cases_cover_changes_and_refusals(both: tuple[Admission, Admission]) -> None:
    results = [result(both[1], each) for each in CASES.values()]
    refused = [each for each in results if each.startswith(b"422 ")]
    assert len(CASES) >= 40
    assert len(refused) >= 15
    assert all(each.startswith((b"{", b"422 ")) for each in results)
    assert sum(b"EDG_MARBLE_TYPE" in each for each in results) >= 20
    assert len(TEMPLATES) == 5


def test_on_a_cluster_without_the_policies_the_webhook_changes_and_refuses(
    both: tuple[Admission, Admission], tmp_path: Path
) -> None:
    """The API server of Kubernetes 1.37 emulates 1.35, which lacks MutatingAdmissionPolicy."""
    with KubernetesServer.running("--emulated-version=1.35") as old, ExitStack() as stack:
        admin = old.cluster()
        assert not admin.has(VERSION, "MutatingAdmissionPolicy")
        namespace = old.new_name("old")
        admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, "")
        with pytest.raises(RefusedError, match=r"injection\.webhook\.enabled"):
            install(admin, namespace, values())
        launcher = {"repository": "registry.example/launcher", "digest": DIGEST}
        install(admin, namespace, with_webhook(launcher=launcher), *MARBLES)
        stack.enter_context(running_webhook(old, namespace, tmp_path))
        made = Admission(admin, namespace)
        settle(made.is_active)
        for name, thing in CASES.items():
            here, there = result(made, thing), result(both[0], thing)
            if thing["kind"] == "Pod":
                assert here == there, name
            else:  # the defaults of other kinds depend on the release
                assert here[:4] == there[:4], name


class Running:
    """A webhook in this process, with the rights of its service account."""

    def __init__(
        self, server: KubernetesServer, namespace: str, lifetime: timedelta = timedelta(days=1)
    ) -> None:
        admin = server.cluster()
        release = Release("keyhouse", namespace)
        policies = admin.get("v1", "ConfigMap", "keyhouse-webhook", namespace)
        assert policies is not None
        self.user = server.cluster(token_of(admin, namespace, "keyhouse-webhook"))
        self.webhook = Webhook(
            release,
            read_policies(policies["data"]["policies.yaml"].encode()),
            lambda: self.user,
            address_of(admin, namespace),
            lifetime,
        )

    def __enter__(self) -> Webhook:
        listener = self.webhook.listener
        self._thread = threading.Thread(target=listener.serve_forever)
        self._thread.start()
        return self.webhook

    def __exit__(self, *_: object) -> None:
        self.webhook.listener.shutdown()
        self._thread.join()
        self.webhook.listener.server_close()


def await_configurations(admission: Admission, number: int) -> None:
    """Wait until the API server uses a version of the configurations after the present version.

    The new version excludes a label. A pod with this label shows that the API server uses it.
    """
    admin, label = admission.admin, f"probe-{number}"
    condition = {"name": "probe", "expression": f'!("{label}" in object.metadata.labels)'}
    for kind in KINDS:
        name = f"keyhouse.{admission.namespace}"
        found = admin.get(VERSION, kind, name)
        assert found is not None
        kept = [e for e in found["webhooks"][0]["matchConditions"] if e["name"] != "probe"]
        found["webhooks"][0]["matchConditions"] = [*kept, condition]
        path = admin.resource(VERSION, kind).path("", name)
        admin.request("PUT", path, kind, body=found)
    marble = {"keyhouse/marble": "nobody", label: "x"}

    def is_excluded() -> bool:
        try:
            return "volumes" not in admission.create(pod(marble), dryRun="All")["spec"]
        except ClusterRefusedError:
            return False

    settle(is_excluded)


def bundle(admin: Cluster, namespace: str, kind: str = KINDS[0]) -> bytes:
    found = admin.get(VERSION, kind, f"keyhouse.{namespace}")
    assert found is not None
    return base64.b64decode(found["webhooks"][0]["clientConfig"].get("caBundle", ""))


def presented(admin: Cluster, namespace: str) -> str:
    return ssl.get_server_certificate(address_of(admin, namespace))


def test_the_certificate_rotates_under_use_without_a_refusal(
    kubernetes: KubernetesServer, admin: Cluster, namespace: str
) -> None:
    install(admin, namespace, with_webhook(), "backend")
    admission = Admission(admin, namespace)
    with Running(kubernetes, namespace) as webhook, ExitStack() as stack:
        rotation, now = webhook.rotation, present_time()
        assert rotation.step(now)
        settle(admission.is_active)
        stop, failures, created = threading.Event(), list[str](), list[int]()

        def use() -> None:
            mine = Admission(kubernetes.cluster(), namespace)
            while not stop.is_set():
                try:
                    made = mine.create(_LABELLED, dryRun="All")
                except ClusterRefusedError as error:
                    failures.append(str(error))
                else:
                    created.append(len(made["spec"]["volumes"]))

        users = [threading.Thread(target=use) for _ in range(2)]
        for each in users:
            each.start()
            stack.callback(each.join)
        stack.callback(stop.set)
        certificates = [presented(admin, namespace)]
        for number in range(4):
            rotation.renew(now)
            assert not rotation.step(now)  # published, and not yet presented
            assert presented(admin, namespace) == certificates[-1]
            await_configurations(admission, number)
            assert rotation.step(now + rotation.overlap)
            certificates.append(presented(admin, namespace))
            for _ in range(3):
                admission.create(_LABELLED, dryRun="All")
        assert failures == []
    assert set(created) == {1}
    assert len(set(certificates)) == 5
    for kind in KINDS:
        assert certificates[-1].strip() in bundle(admin, namespace, kind).decode()


def test_a_certificate_is_renewed_at_half_of_its_lifetime_and_presented_after_the_overlap() -> None:
    published: list[list[bytes]] = []
    lifetime, start = timedelta(hours=10), present_time()
    rotation = Rotation("a.b.svc", lambda each, _: published.append([*each]), lifetime)
    changes = [minute for minute in range(0, 1000, 30) if rotation.step(start + minute * _MINUTE)]
    # Five hours after its issue, the next certificate is issued; it is presented an hour later.
    assert changes == [0, 360, 660, 960]
    numbers = [len(each) for each in published]
    assert numbers == [1] * 10 + ([2] * 3 + [1] * 7) * 2 + [2] * 3 + [1]
    assert len({each for both in published for each in both}) == 4


def test_a_failed_publication_keeps_the_old_certificate_and_is_tried_again() -> None:
    failing = False

    def record(each: Sequence[bytes], _: datetime) -> None:
        if failing:
            raise UnavailableError(f"{len(each)} certificates")

    rotation, now = Rotation("a.b.svc", record), present_time()
    rotation.step(now)
    first, failing = rotation.current, True
    for hours in (12, 20, 23):
        with pytest.raises(UnavailableError, match="2 certificates"):
            rotation.step(now + timedelta(hours=hours))
        assert rotation.current is first
    failing = False
    assert rotation.step(now + timedelta(hours=24))


def test_an_upgrade_keeps_the_certificates_and_a_replaced_bundle_returns(
    kubernetes: KubernetesServer, admin: Cluster, namespace: str
) -> None:
    install(admin, namespace, with_webhook(), "backend")
    with Running(kubernetes, namespace) as webhook:
        now = present_time()
        webhook.rotation.step(now)
        before = bundle(admin, namespace)
        install(admin, namespace, with_webhook())
        assert bundle(admin, namespace) == before
        name = f"keyhouse.{namespace}"
        for kind in KINDS:
            body = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
            path = admin.resource(VERSION, kind).path("", name)
            media_type = "application/json-patch+json"
            admin.request("PATCH", path, kind, body=body, media_type=media_type)
        assert not has_bundle(admin, namespace)
        webhook.rotation.step(now)
        assert bundle(admin, namespace) == before


def test_several_processes_keep_the_certificates_of_each_other(
    kubernetes: KubernetesServer, admin: Cluster, namespace: str
) -> None:
    install(admin, namespace, with_webhook())
    user = kubernetes.cluster(token_of(admin, namespace, "keyhouse-webhook"))
    now = present_time()
    own = [issue("a.b.svc", now, timedelta(days=1)).certificate for _ in range(6)]
    users = [
        threading.Thread(target=publish, args=(user, f"keyhouse.{namespace}", [each], now))
        for each in own
    ]
    for each in users:
        each.start()
    for each in users:
        each.join()
    assert sorted(unexpired(bundle(admin, namespace), now)) == sorted(own)
    later = now + timedelta(days=2)
    publish(user, f"keyhouse.{namespace}", [], later)
    assert bundle(admin, namespace) == b""


def test_many_pods_at_once_wait_for_their_answers(
    kubernetes: KubernetesServer, both: tuple[Admission, Admission]
) -> None:
    created, failures = list[int](), list[str]()

    def create() -> None:
        mine = Admission(kubernetes.cluster(), both[1].namespace)
        try:
            for _ in range(2):
                created.append(len(mine.create(_LABELLED, dryRun="All")["spec"]["volumes"]))
        except ClusterRefusedError as error:
            failures.append(str(error))

    users = [threading.Thread(target=create) for _ in range(60)]
    for each in users:
        each.start()
    for each in users:
        each.join()
    assert failures == []
    assert created == [1] * 120


def test_one_address_leaves_places_to_others(
    kubernetes: KubernetesServer, admin: Cluster, namespace: str
) -> None:
    install(admin, namespace, with_webhook(), "backend")
    with Running(kubernetes, namespace) as webhook, ExitStack() as stack:
        webhook.rotation.step(present_time())
        address = address_of(admin, namespace)
        settle(Admission(admin, namespace).is_active)
        for _ in range(40):  # connections without a handshake
            held = socket.create_connection(address, source_address=("127.9.9.9", 0))
            stack.enter_context(held)
        assert "volumes" in Admission(admin, namespace).create(_LABELLED)["spec"]


def test_check_names_a_webhook_without_pods(admin: Cluster, namespace: str) -> None:
    install(admin, namespace, with_webhook())
    release = Release("keyhouse", namespace)
    planned = plan(admin, release, with_webhook())
    found = {each.part: each for each in findings(admin, release, planned.objects)}
    about = found["Deployment keyhouse-webhook"]
    assert about.problem == "0 of 2 pods are ready"
    assert about.since.startswith("20")


def test_while_the_webhook_is_down_only_labelled_pods_are_refused(
    kubernetes: KubernetesServer, admin: Cluster, namespace: str, tmp_path: Path
) -> None:
    install(admin, namespace, with_webhook(), "backend")
    admission = Admission(admin, namespace)
    with running_webhook(kubernetes, namespace, tmp_path) as process:
        settle(admission.is_active)
        process.kill()
        process.wait()
        with pytest.raises(ClusterRefusedError, match=r"failed calling webhook .*mutate.keyhouse"):
            admission.create(_LABELLED)
        admission.create(pod({"app": "unlabelled"}))
    with running_webhook(kubernetes, namespace, tmp_path) as process:
        settle(admission.is_active)
        process.send_signal(15)
        assert process.wait() == 0


@pytest.mark.parametrize("resource", [0, 1], ids=["mutating", "validating"])
@pytest.mark.parametrize("verb", ["get", "patch"])
def test_without_one_permission_the_certificate_is_not_published(
    kubernetes: KubernetesServer, admin: Cluster, namespace: str, verb: str, resource: int
) -> None:
    install(admin, namespace, with_webhook(), "backend")
    name = f"keyhouse.{namespace}"
    _change_rules(admin, "ClusterRole", name, "", resource, verb)
    running = Running(kubernetes, namespace)
    with running as webhook:

        def is_refused() -> bool:
            try:
                publish(running.user, name, [], present_time())
                webhook.rotation.current = None
                webhook.rotation.step(present_time())
            except ClusterRefusedError as error:
                return error.status == FORBIDDEN
            return False

        settle(is_refused)


def test_without_the_permission_to_read_the_marbles_labels_are_refused(
    kubernetes: KubernetesServer, admin: Cluster, namespace: str
) -> None:
    install(admin, namespace, with_webhook(), "backend")
    admission = Admission(admin, namespace)
    with Running(kubernetes, namespace) as webhook:
        webhook.rotation.step(present_time())
        settle(admission.is_active)
        _change_rules(admin, "Role", "keyhouse-webhook", namespace, 0, "get")

        def is_refused() -> bool:
            with suppress(ClusterRefusedError):
                admission.create(_LABELLED, dryRun="All")
                return False
            return True

        settle(is_refused)
        with pytest.raises(ClusterRefusedError, match="the API server refuses ConfigMap"):
            admission.create(_LABELLED)


def _change_rules(
    admin: Cluster, kind: str, name: str, namespace: str, resource: int, verb: str
) -> None:
    """Remove one verb of one resource from a role."""
    group = "rbac.authorization.k8s.io/v1"
    found = admin.get(group, kind, name, namespace)
    assert found is not None
    (rule,) = found["rules"]
    changed = []
    for number, each in enumerate(rule["resources"]):
        verbs = [v for v in rule["verbs"] if (number, v) != (resource, verb)]
        if verbs:
            changed.append({**rule, "resources": [each], "verbs": verbs})
    path = admin.resource(group, kind).path(namespace, name)
    body = {"rules": changed}
    admin.request("PATCH", path, name, body=body, media_type=_MERGE)


def test_an_upgrade_replaces_the_policies_and_uninstall_leaves_nothing(
    admin: Cluster, namespace: str
) -> None:
    release = Release("keyhouse", namespace)

    def change(given: dict[str, Any]) -> dict[str, str]:
        labels = {"kubernetes.io/metadata.name": namespace}
        given["injection"]["namespaceSelector"] = {"matchLabels": labels}
        changes = apply(admin, plan(admin, release, given), dry_run=False, force=False)
        return {f"{each.kind} {each.name}": each.change for each in changes}

    name = policy_name(release)
    change(values())
    after = change(with_webhook())
    for kind in ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"):
        assert after[f"{kind} {name}"] == after[f"{kind}Binding {name}"] == "deleted"
    assert all(after[f"{kind} {name}"] == "created" for kind in (*KINDS, "ClusterRole"))
    assert set(change(with_webhook()).values()) == {"unchanged"}
    back = change(values())
    assert back[f"ClusterRoleBinding {name}"] == back["Deployment keyhouse-webhook"] == "deleted"
    change(with_webhook())
    removed = [each.kind for each in uninstall(admin, release, delete_state=False)]
    assert removed[:2] == [*KINDS]  # first: their pods are deleted afterwards
    assert list(installed(admin, release)) == []


def test_a_connection_has_a_limited_size_and_a_strict_head(
    kubernetes: KubernetesServer, admin: Cluster, namespace: str
) -> None:
    install(admin, namespace, with_webhook(), "backend")
    with Running(kubernetes, namespace) as webhook:
        webhook.rotation.step(present_time())
        address = address_of(admin, namespace)
        client = ssl.create_default_context(cadata=bundle(admin, namespace).decode())
        ask = _asker(address, client, f"keyhouse-webhook.{namespace}.svc")
        assert ask(b"GET /ready HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.0 200")
        assert ask(b"GET /x HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.0 404")
        post = b"POST /mutate?timeout=10s HTTP/1.1\r\n"
        assert ask(post + b"\r\n").startswith(b"HTTP/1.0 411")
        assert ask(post + b"Content-Length: 99999999\r\n\r\n").startswith(b"HTTP/1.0 413")
        assert ask(post + b"Content-Length: -1\r\n\r\n").startswith(b"HTTP/1.0 411")
        for body in (b"{}", b"[", b'{"apiVersion": "v2", "request": {"uid": "1"}}', b"[" * 99999):
            head = post + f"Content-Length: {len(body)}\r\n\r\n".encode()
            assert ask(head + body).startswith(b"HTTP/1.0 400"), body[:50]


def _asker(address: tuple[str, int], client: ssl.SSLContext, name: str) -> Callable[[bytes], bytes]:
    def ask(request: bytes) -> bytes:
        with (
            socket.create_connection(address) as plain,
            client.wrap_socket(plain, server_hostname=name) as secured,
        ):
            secured.sendall(request)
            answer = b""
            while piece := secured.recv(65536):
                answer += piece
            return answer

    return ask


def test_a_pod_without_an_answer_of_the_rules_is_refused(both: tuple[Admission, Admission]) -> None:
    """The API server checks labels before the second stage; a direct client can send anything."""
    thing = copy.deepcopy(CASES["a marble"])
    thing["metadata"]["labels"] = {"keyhouse/marble": "backend", "keyhouse/launcher": "enabled"}
    thing["spec"]["containers"] = [{"name": f"c{n}", "image": "x"} for n in range(3)]
    assert result(both[1], thing) == result(both[0], thing)
