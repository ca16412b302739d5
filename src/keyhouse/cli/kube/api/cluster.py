"""Requests to the API server of a cluster.

Objects are applied on the server (server-side apply): the API server merges the fields, and
records the manager of each field.
Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/.
"""

import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Self
from urllib.parse import quote

import httpx
import msgspec

from keyhouse.cli.kube.api.errors import (
    NOT_FOUND,
    ClusterRefusedError,
    ClusterUnreachableError,
    KubeconfigError,
    refusal_of,
)
from keyhouse.cli.kube.api.kubeconfig import Access, read_access

Object = dict[str, Any]

MANAGER: Final = "keyhouse"
"""The name of this command among the managers of fields."""

_APPLY: Final = "application/apply-patch+yaml"  # JSON is YAML
# Seconds for an answer, chosen: shorter than the API server's own limit of 60.
_PATIENCE: Final = 30.0
_FAILED: Final = 400  # the lowest HTTP status of a refusal


class Resource(msgspec.Struct, frozen=True):
    """A kind of object: its path, and whether its objects belong to namespaces."""

    kind: str
    version: str  # such as apps/v1
    plural: str
    namespaced: bool

    def path(self, namespace: str, name: str = "") -> str:
        """Return the URL path of the object ``name`` in ``namespace``.

        With "" for ``name``, the path is that of all objects; with "" for ``namespace``, the path
        covers all namespaces. ``namespace`` has no effect for a kind outside of namespaces.
        """
        root = "/api" if "/" not in self.version else "/apis"
        place = f"/namespaces/{quote(namespace)}" if self.namespaced and namespace else ""
        rest = f"/{quote(name, safe=':')}" if name else ""
        return f"{root}/{self.version}{place}/{self.plural}{rest}"


class Cluster:
    """The API server of a cluster, with the credentials of a user."""

    def __init__(self, access: Access) -> None:
        self.access: Final = access
        self._resources: dict[str, dict[str, Resource]] = {}
        headers = list(access.impersonation)
        if access.token is not None:
            token = access.token.reveal().decode("ascii", "replace")
            headers.append(("Authorization", f"Bearer {token}"))
        self._client = httpx.Client(
            base_url=access.server,
            verify=_context(access),
            headers=headers,
            timeout=_PATIENCE,
            proxy=access.proxy or None,
            trust_env=not access.proxy,
        )

    @classmethod
    @contextmanager
    def connect(cls, context: str) -> Iterator[Self]:
        """Yield the cluster of ``context`` in the user's kubeconfig; "": the current context.

        Raises ``KubeconfigError``.
        """
        cluster = cls(read_access(context, os.environ))
        try:
            yield cluster
        finally:
            cluster.close()

    def close(self) -> None:
        """Close the connections to the API server."""
        self._client.close()

    def request(
        self,
        method: str,
        path: str,
        subject: str,
        *,
        body: Any = None,
        media_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request to the API server; return the answer, decoded from JSON.

        ``subject`` names the object in errors. ``body`` is encoded as JSON; None: no body.
        ``media_type`` is the type of the body. ``query``: the parameters of the URL. Raises
        ``ClusterRefusedError`` and ``ClusterUnreachableError``.
        """
        extensions = {"sni_hostname": self.access.server_name} if self.access.server_name else None
        try:
            answer = self._client.request(
                method,
                path,
                content=None if body is None else msgspec.json.encode(body),
                headers={"Content-Type": media_type} if body is not None else None,
                params=dict(query or {}),
                extensions=extensions,
            )
        except httpx.HTTPError as error:
            raise ClusterUnreachableError(
                f"the API server {self.access.server} does not answer ({type(error).__name__})",
                hint="check the server and the authority in the kubeconfig, or pass --context",
            ) from None
        try:
            decoded = msgspec.json.decode(answer.content) if answer.content else None
        except msgspec.DecodeError:
            decoded = None
        if answer.status_code >= _FAILED:
            raise refusal_of(answer.status_code, subject, decoded)
        return decoded

    def resource(self, version: str, kind: str) -> Resource:
        """Return the resource of ``kind``, with its path in the API ``version``.

        ``version``: the API group and version, such as ``apps/v1``. Raises ``ClusterRefusedError``
        if the cluster does not have this kind.
        """
        if version not in self._resources:
            self._resources[version] = self._discover(version)
        found = self._resources[version].get(kind)
        if found is None:
            raise ClusterRefusedError(
                NOT_FOUND,
                f"the cluster does not have {kind} ({version})",
                hint=f"install the definition of {kind} in the cluster, or change the value of the"
                " chart that needs this kind",
            )
        return found

    def has(self, version: str, kind: str) -> bool:
        """Return whether the cluster serves objects of ``kind`` in the API ``version``."""
        try:
            self.resource(version, kind)
        except ClusterRefusedError as error:
            if error.status == NOT_FOUND:
                return False
            raise
        return True

    def _discover(self, version: str) -> dict[str, Resource]:
        path = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        try:
            listed = self.request("GET", path, version)
        except ClusterRefusedError as error:
            if error.status == NOT_FOUND:
                return {}
            raise
        return {
            each["kind"]: Resource(each["kind"], version, each["name"], each["namespaced"])
            for each in listed["resources"]
            if "/" not in each["name"]  # no subresources
        }

    def get(self, version: str, kind: str, name: str, namespace: str = "") -> Object | None:
        """Return the object ``name`` of ``kind``; None if the object or its kind does not exist.

        ``version``: the API group and version, such as ``apps/v1``. ``namespace`` is "" for an
        object outside of namespaces.
        """
        if not self.has(version, kind):
            return None
        path = self.resource(version, kind).path(namespace, name)
        try:
            return self._object(self.request("GET", path, f"{kind} {name}"))
        except ClusterRefusedError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def list(self, version: str, kind: str, namespace: str = "", labels: str = "") -> list[Object]:
        """Return the objects of ``kind``; no objects if the cluster does not have this kind.

        ``version``: the API group and version, such as ``apps/v1``. ``namespace``: "" means all
        namespaces. ``labels``: a selector for the labels of the objects; "" selects all objects.
        """
        if not self.has(version, kind):
            return []
        query, made = {"limit": "500"}, list[Object]()
        if labels:
            query["labelSelector"] = labels
        path = self.resource(version, kind).path(namespace)
        while True:
            page = self.request("GET", path, f"the list of {kind}", query=query)
            # Objects in a list have neither a version nor a kind.
            made += [{"apiVersion": version, "kind": kind, **each} for each in page["items"] or ()]
            query["continue"] = page["metadata"].get("continue", "")
            if not query["continue"]:
                return made

    def apply(
        self,
        thing: Mapping[str, Any],
        namespace: str,
        *,
        dry_run: bool = False,
        force: bool = False,
        manager: str = MANAGER,
    ) -> Object:
        """Apply the object ``thing`` in ``namespace`` on the server; return the merged object.

        ``manager`` is the recorded manager of the fields. With ``force``, fields of further
        managers, such as helm, become fields of ``manager``. With ``dry_run``, the server only
        checks the object. Raises ``ClusterRefusedError``.
        """
        kind, name = thing["kind"], thing["metadata"]["name"]
        path = self.resource(thing["apiVersion"], kind).path(namespace, name)
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        if dry_run:
            query["dryRun"] = "All"
        answer = self.request(
            "PATCH", path, f"{kind} {name}", body=thing, media_type=_APPLY, query=query
        )
        return self._object(answer)

    def delete(self, version: str, kind: str, name: str, namespace: str = "") -> bool:
        """Delete the object ``name`` of ``kind``; return whether the object existed.

        ``version`` and ``namespace`` as for ``get``.
        """
        path = self.resource(version, kind).path(namespace, name)
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        try:
            self.request("DELETE", path, f"{kind} {name}", body=options)
        except ClusterRefusedError as error:
            if error.status == NOT_FOUND:
                return False
            raise
        return True

    @staticmethod
    def _object(answer: Any) -> Object:
        assert isinstance(answer, dict)  # noqa: S101 the API server answers with objects
        return answer


def _context(access: Access) -> ssl.SSLContext:
    if access.authority is None:
        context = ssl.create_default_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cadata=access.authority.decode("ascii"))
        except (ssl.SSLError, ValueError):
            raise KubeconfigError(
                "certificate-authority in the kubeconfig is not a PEM certificate"
            ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if access.identity is not None:
        access.identity.present(context)
    return context
