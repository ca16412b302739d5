"""The access of a user: kubeconfig files, and their use against a real API server."""

import base64
import json
import os
import re
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.cluster.server import KubernetesServer

from keyhouse.cli.kube.api.cluster import Cluster
from keyhouse.cli.kube.api.errors import (
    ClusterRefusedError,
    ClusterUnreachableError,
    KubeconfigError,
)
from keyhouse.cli.kube.api.kubeconfig import read_access

_CANARY = "canary-of-a-token"


def write(path: Path, user: Mapping[str, Any], cluster: Mapping[str, Any], name: str = "a") -> Path:
    tree = {
        "current-context": name,
        "clusters": [{"name": name, "cluster": dict(cluster)}],
        "users": [{"name": name, "user": dict(user)}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "n"}}],
    }
    path.write_text(json.dumps(tree))
    return path


_CLUSTER = {"server": "https://api.example:6443/", "certificate-authority-data": "eA=="}


def test_a_token_a_proxy_and_a_name_are_read(tmp_path: Path) -> None:
    user = {"token": _CANARY, "as": "somebody", "as-groups": ["one", "two"]}
    cluster = {**_CLUSTER, "tls-server-name": "other.example", "proxy-url": "http://proxy:1"}
    path = write(tmp_path / "config", user, cluster)
    access = read_access("", {"KUBECONFIG": str(path)})
    assert (access.server, access.authority) == ("https://api.example:6443", b"x")
    assert (access.server_name, access.proxy) == ("other.example", "http://proxy:1")
    assert (access.namespace, access.context) == ("n", "a")
    assert access.token is not None
    assert access.token.reveal().decode() == _CANARY
    assert access.impersonation == (
        ("Impersonate-User", "somebody"),
        ("Impersonate-Group", "one"),
        ("Impersonate-Group", "two"),
    )
    assert _CANARY not in repr(access)


def test_several_files_are_merged_and_the_first_definition_counts(tmp_path: Path) -> None:
    first = write(tmp_path / "1", {"token": "1"}, _CLUSTER)
    second = write(tmp_path / "2", {"token": "2"}, {**_CLUSTER, "server": "https://b.example"})
    third = write(tmp_path / "3", {"token": "3"}, {**_CLUSTER, "server": "https://c.example"}, "c")
    paths = os.pathsep.join(map(str, (first, second, third)))
    assert read_access("", {"KUBECONFIG": paths}).server == "https://api.example:6443"
    assert read_access("c", {"KUBECONFIG": paths}).server == "https://c.example"
    with pytest.raises(KubeconfigError, match=r"'d'.* a, c "):
        read_access("d", {"KUBECONFIG": paths})


def test_files_of_an_entry_are_relative_to_its_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"ca")
    (tmp_path / "token").write_bytes(b" secret \n")
    cluster = {"server": "https://a.example", "certificate-authority": "ca.pem"}
    path = write(tmp_path / "config", {"tokenFile": "token"}, cluster)
    access = read_access("", {"KUBECONFIG": str(path)})
    assert access.authority == b"ca"
    assert access.token is not None
    assert access.token.reveal() == b"secret"


@pytest.mark.parametrize(
    ("user", "cluster", "text"),
    [
        ({}, {**_CLUSTER, "insecure-skip-tls-verify": True}, "insecure-skip-tls-verify"),
        ({}, {"server": "http://a.example"}, "an https:// URL"),
        ({"auth-provider": {"name": "x"}}, _CLUSTER, "auth-provider"),
        ({"client-key-data": "%", "client-certificate-data": "eA=="}, _CLUSTER, "is not base64"),
        ({"exec": {"apiVersion": "v0", "command": "x"}}, _CLUSTER, "has the version 'v0'"),
    ],
)
def test_an_access_that_cannot_be_used_is_refused(
    tmp_path: Path, user: Mapping[str, Any], cluster: Mapping[str, Any], text: str
) -> None:
    path = write(tmp_path / "config", user, cluster)
    with pytest.raises(KubeconfigError, match=re.escape(text)):
        read_access("", {"KUBECONFIG": str(path)})


def test_without_a_kubeconfig_the_error_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=re.escape(f"{tmp_path}/.kube/config is missing")):
        read_access("", {"HOME": str(tmp_path)})


def plugin(folder: Path, status: Mapping[str, Any], code: int = 0) -> dict[str, Any]:
    script = folder / "plugin"
    text = json.dumps({"kind": "ExecCredential", "status": dict(status)})
    script.write_text(
        f'#!/bin/sh\ntest -n "$KUBERNETES_EXEC_INFO" || exit 9\ntest "$A$1" = bc || exit 8\n'
        f"cat <<'E'\n{text}\nE\nexit {code}\n"
    )
    script.chmod(0o755)
    return {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./plugin",
        "args": ["c"],
        "env": [{"name": "A", "value": "b"}],
        "interactiveMode": "Never",
        "provideClusterInfo": False,
    }


def test_an_exec_plugin_gives_a_token(tmp_path: Path) -> None:
    entry = plugin(tmp_path, {"token": _CANARY})
    path = write(tmp_path / "config", {"exec": entry}, _CLUSTER)
    access = read_access("", {"KUBECONFIG": str(path), "PATH": os.environ["PATH"]})
    assert access.token is not None
    assert access.token.reveal().decode() == _CANARY


def test_a_failed_exec_plugin_is_named_without_its_output(tmp_path: Path) -> None:
    entry = plugin(tmp_path, {"token": _CANARY}, code=3)
    path = write(tmp_path / "config", {"exec": entry}, _CLUSTER)
    with pytest.raises(KubeconfigError, match="exit code 3") as error:
        read_access("", {"KUBECONFIG": str(path), "PATH": os.environ["PATH"]})
    assert _CANARY not in str(error.value)
    entry = {**entry, "command": "no-such-plugin", "installHint": "install it like this"}
    path = write(tmp_path / "config", {"exec": entry}, _CLUSTER)
    with pytest.raises(KubeconfigError, match="install it like this"):
        read_access("", {"KUBECONFIG": str(path)})


def test_a_kubeconfig_reaches_a_real_api_server(kubernetes: KubernetesServer) -> None:
    entry = plugin(kubernetes.folder, {"token": kubernetes.token(0)})
    path = kubernetes.kubeconfig(name="with-plugin", exec=entry)
    access = read_access("", {"KUBECONFIG": str(path), "PATH": os.environ["PATH"]})
    with (
        closing(Cluster(access)) as cluster,
        pytest.raises(ClusterRefusedError, match='User "user-0" cannot list resource') as error,
    ):
        cluster.list("v1", "Node")
    assert "ask the administrator" in error.value.hint
    assert kubernetes.cluster().list("v1", "Node") == []


def test_an_unknown_user_is_refused(kubernetes: KubernetesServer) -> None:
    with pytest.raises(ClusterRefusedError, match="Unauthorized") as error:
        kubernetes.cluster("nobody").list("v1", "Node")
    assert error.value.status == 401


def test_another_authority_is_not_trusted(kubernetes: KubernetesServer, tmp_path: Path) -> None:
    other = b"-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n"
    cluster = {
        "server": f"https://127.0.0.1:{kubernetes.port}",
        "certificate-authority-data": base64.b64encode(other).decode(),
    }
    path = write(tmp_path / "config", {"token": _CANARY}, cluster)
    with pytest.raises(KubeconfigError, match="PEM certificate"):
        Cluster(read_access("", {"KUBECONFIG": str(path)}))
    path = write(tmp_path / "config", {"token": _CANARY}, {"server": cluster["server"]})
    with (
        closing(Cluster(read_access("", {"KUBECONFIG": str(path)}))) as untrusting,
        pytest.raises(ClusterUnreachableError),
    ):
        untrusting.list("v1", "Node")
