"""Read the user's access to a cluster: kubeconfig files, or the service account of a pod.

Source: https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/.
Several files in ``KUBECONFIG`` are merged: the first definition of each name counts.
"""

import os
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from keyhouse.base.errors import KeyhouseError
from keyhouse.base.secret import Secret
from keyhouse.base.user_files import read_file
from keyhouse.cli.kube.api.errors import KubeconfigError
from keyhouse.cli.kube.api.exec_plugin import ExecCredential, run_plugin
from keyhouse.client.identity import PemIdentity
from keyhouse.manifest.source.yaml_text import read_yaml

_IN_CLUSTER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_LISTS: Final = ("clusters", "contexts", "users")
_SELECT: Final = "select a context with --context; kubectl config get-contexts lists the contexts"


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The API server of a cluster, and a user's credentials for this server."""

    server: str  # URL of the API server
    authority: bytes | None = None  # certificates (PEM); None: the authorities of this system
    server_name: str = ""  # name in the certificate of the API server, if the URL has another name
    proxy: str = ""
    identity: PemIdentity | None = None
    token: Secret | None = None
    impersonation: tuple[tuple[str, str], ...] = ()  # header lines
    namespace: str = "default"  # of the context
    context: str = ""  # name of the context; empty in a pod


def read_access(context: str, environment: Mapping[str, str]) -> Access:
    """Return the access to the cluster of ``context``; "" means the current context.

    ``environment`` has the variables of this process, such as ``KUBECONFIG``. Without a kubeconfig,
    a pod uses its service account. Raises ``KubeconfigError``.
    """
    paths = _paths(environment)
    found = [path for path in paths if path.is_file()]
    if not found:
        if "KUBERNETES_SERVICE_HOST" in environment and not context:
            return _of_pod(environment)
        raise KubeconfigError(
            f"there is no kubeconfig: {', '.join(map(str, paths))} is missing",
            hint="set KUBECONFIG to the file with the access to your cluster",
        )
    return _Kubeconfig(found, environment).access(context)


def _paths(environment: Mapping[str, str]) -> list[Path]:
    listed = [Path(each) for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    return listed or [Path(environment.get("HOME", "/")) / ".kube" / "config"]


def _of_pod(environment: Mapping[str, str]) -> Access:
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        authority=read_file(str(_IN_CLUSTER / "ca.crt")),
        token=Secret(read_file(str(_IN_CLUSTER / "token")).strip()),
        namespace=read_file(str(_IN_CLUSTER / "namespace")).decode("ascii", "replace").strip(),
    )


def known_contexts() -> list[str]:
    """Return the names of the contexts for shell completion; none if a file is unreadable."""
    try:
        found = [path for path in _paths(os.environ) if path.is_file()]
        return _Kubeconfig(found, os.environ).contexts()
    except (KeyhouseError, OSError):  # a shell shows no error when the user presses Tab
        return []


class _Kubeconfig:
    """The merged content of the kubeconfig files in ``paths``.

    ``environment``: the variables for an exec plugin.
    """

    def __init__(self, paths: Iterable[Path], environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._current = ""
        self._named: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in _LISTS}
        self._folders: dict[int, Path] = {}  # of each entry: relative paths begin there
        for path in paths:
            self._add(path, _read(path))

    def _add(self, path: Path, tree: Mapping[str, Any]) -> None:
        self._current = self._current or str(tree.get("current-context") or "")
        for name in _LISTS:
            for entry in _list(tree.get(name)):
                inner = entry.get(name.removesuffix("s"))
                if isinstance(inner, dict) and isinstance(entry.get("name"), str):
                    self._named[name].setdefault(entry["name"], inner)
                    self._folders[id(inner)] = path.absolute().parent

    def contexts(self) -> list[str]:
        """Return the names of the contexts."""
        return [*self._named["contexts"]]

    def access(self, name: str) -> Access:
        """Return the access of the context ``name``; "" means the current context.

        Raises ``KubeconfigError``.
        """
        name = name or self._current
        if not name:
            raise KubeconfigError("the kubeconfig has no current context", hint=_SELECT)
        context = self._entry("contexts", name, f"the context {name!r}")
        cluster_name, user_name = str(context.get("cluster")), str(context.get("user"))
        cluster = self._entry("clusters", cluster_name, f"the cluster {cluster_name!r}")
        user = self._entry("users", user_name, f"the user {user_name!r}") if user_name else {}
        server = cluster.get("server")
        if not isinstance(server, str) or not server.startswith("https://"):
            raise KubeconfigError(
                f"the cluster {cluster_name!r} has the server {server!r}, expected an https:// URL"
            )
        if cluster.get("insecure-skip-tls-verify"):
            raise KubeconfigError(
                f"the cluster {cluster_name!r} has insecure-skip-tls-verify, which would send"
                " credentials to anybody",
                hint="put the certificate of its authority into certificate-authority-data",
            )
        return self._with_user(
            Access(
                server=server.rstrip("/"),
                authority=self._content(cluster, "certificate-authority"),
                server_name=str(cluster.get("tls-server-name") or ""),
                proxy=str(cluster.get("proxy-url") or ""),
                namespace=str(context.get("namespace") or "default"),
                context=name,
                impersonation=tuple(_impersonation(user)),
            ),
            user,
            user_name,
        )

    def _with_user(self, access: Access, user: Mapping[str, Any], name: str) -> Access:
        if user.get("auth-provider") or user.get("username"):
            raise KubeconfigError(
                f"the user {name!r} has auth-provider or username, which Kubernetes has removed",
                hint="use a client certificate, a token or an exec plugin in the kubeconfig",
            )
        certificate = self._content(user, "client-certificate")
        key = self._content(user, "client-key")
        token = self._token(user)
        if isinstance(user.get("exec"), dict) and token is None:
            made = run_plugin(user["exec"], self._folders[id(user)], self._environment)
            return _with_credential(access, made)
        if certificate is not None and key is not None:
            identity = PemIdentity(certificate, Secret(key))
            access = msgspec.structs.replace(access, identity=identity)
        return msgspec.structs.replace(access, token=token)

    def _token(self, user: Mapping[str, Any]) -> Secret | None:
        if user.get("token"):
            return Secret(str(user["token"]).encode())
        if user.get("tokenFile"):
            path = self._folders[id(user)] / str(user["tokenFile"])
            return Secret(read_file(str(path)).strip())
        return None

    def _entry(self, section: str, name: str, subject: str) -> dict[str, Any]:
        found = self._named[section].get(name)
        if found is None:
            known = ", ".join(self._named[section]) or "no name"
            raise KubeconfigError(
                f"the kubeconfig does not have {subject}; its section {section} has {known}",
                hint=_SELECT,
            )
        return found

    def _content(self, entry: Mapping[str, Any], name: str) -> bytes | None:
        """Return the certificate or key ``name`` of ``entry``, a cluster or user, or None.

        For the name ``client-key``, the bytes are in the field ``client-key-data`` in base64, or
        else in the file with the path in the field ``client-key``. Without these fields, the result
        is None. Raises ``KubeconfigError``.
        """
        encoded = entry.get(f"{name}-data")
        if encoded:
            try:
                return b64decode(str(encoded), validate=True)
            except (Base64Error, ValueError):
                raise KubeconfigError(f"{name}-data in the kubeconfig is not base64") from None
        path = entry.get(name)
        return read_file(str(self._folders[id(entry)] / str(path))) if path else None


def _with_credential(access: Access, made: ExecCredential) -> Access:
    if made.certificate and made.key is not None:
        identity = PemIdentity(made.certificate, made.key)
        access = msgspec.structs.replace(access, identity=identity)
    return msgspec.structs.replace(access, token=made.token)


def _impersonation(user: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    if user.get("as"):
        yield "Impersonate-User", str(user["as"])
    if user.get("as-uid"):
        yield "Impersonate-Uid", str(user["as-uid"])
    for group in user.get("as-groups") or ():
        yield "Impersonate-Group", str(group)


def _read(path: Path) -> Mapping[str, Any]:
    read = read_yaml(read_file(str(path)))
    if read.problems:
        raise KubeconfigError(f"{path}: {read.problems[0]}")
    if not isinstance(read.tree, dict):
        raise KubeconfigError(f"{path} is not a kubeconfig: the content must be a YAML object")
    return read.tree


def _list(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
