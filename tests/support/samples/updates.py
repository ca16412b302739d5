"""Manifests that several users update together, and updates over HTTPS in both versions."""

import base64
import json
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from keyhouse.coordinator import Engine, SentUpdate, View, prepare_acknowledgement, prepare_update
from support.process.server import Client, Reply
from support.samples.deployment import user
from support.samples.fixed_keys import unused_rsa_key

__all__ = [
    "VERSIONS",
    "Api",
    "Change",
    "Document",
    "acknowledged",
    "document",
    "holder_key",
    "holder_pem",
    "initiated",
    "raise_version",
    "together",
]

Document = dict[str, Any]
Change = Callable[[Document], object]

UPDATERS: Final = ("alice", "bob", "carol")
VERSIONS: Final = (1, 2)


@cache
def holder_key(name: str) -> rsa.RSAPrivateKey:
    """Return the private recovery key ``name``: the same in the whole test run."""
    del name
    return unused_rsa_key()


def holder_pem(name: str) -> str:
    """Return the public recovery key ``name``."""
    public = holder_key(name).public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def together(
    change: Change = lambda _: None,
    *,
    updaters: Iterable[str] = UPDATERS,
    holders: Iterable[str] = (),
    word: str = "",
    **config: Any,
) -> bytes:
    """Return ``document`` as a manifest, after ``change``.

    ``word`` distinguishes manifests with otherwise equal content.
    """
    content = document(updaters, holders, **config)
    content["Marbles"]["app"]["Parameters"] = {"Argv": [word]}
    change(content)
    return json.dumps(content).encode()


def document(
    updaters: Iterable[str] = UPDATERS, holders: Iterable[str] = (), **config: Any
) -> Document:
    """Return a manifest that ``updaters`` may update; by default two of three must agree.

    ``writer`` may read and write ``note``. ``releaser`` may raise ``app`` above 3.
    """
    people = {name: ["admin"] for name in updaters}
    people |= {"writer": ["write"], "releaser": ["release"]}
    return {
        "Packages": {"app": {"SignerID": "ab" * 32, "ProductID": 7, "SecurityVersion": 3}},
        "Marbles": {"app": {"Package": "app"}},
        "Secrets": {
            "note": {"Type": "plain", "UserDefined": True},
            "shared": {"Type": "symmetric-key", "Size": 128, "Shared": True},
        },
        "Users": {
            name: {"Certificate": user(name).pem.decode(), "Roles": roles}
            for name, roles in people.items()
        },
        "Roles": {
            "admin": {"ResourceType": "Manifest", "Actions": ["UpdateManifest"]},
            "write": {
                "ResourceType": "Secrets",
                "ResourceNames": ["note"],
                "Actions": ["ReadSecret", "WriteSecret"],
            },
            "release": {
                "ResourceType": "Packages",
                "ResourceNames": ["app"],
                "Actions": ["UpdateSecurityVersion"],
            },
        },
        "RecoveryKeys": {name: holder_pem(name) for name in holders},
        "Config": {"UpdateThreshold": 2, **config},
    }


def raise_version(version: int) -> bytes:
    """Return the package update that raises ``app`` to ``version``."""
    return json.dumps({"Packages": {"app": {"SecurityVersion": version}}}).encode()


class Api:
    """The update routes of a version of the Client API."""

    def __init__(self, version: int) -> None:
        self.version = version
        self._prefix = "/api/v2" if version > 1 else ""

    def plan(self, client: Client, raw: bytes) -> Reply:
        """Request the plan of an update with POST; version 2 only."""
        return client.call("POST", f"{self._prefix}/plan", self._body(raw))

    def update(self, client: Client, raw: bytes, plan: str = "") -> Reply:
        """Send an update with POST."""
        return client.call("POST", f"{self._prefix}/update", self._body(raw, plan))

    def acknowledge(self, client: Client, raw: bytes, plan: str = "") -> Reply:
        """Send an acknowledgement with POST."""
        return client.call("POST", f"{self._prefix}/update-manifest", self._body(raw, plan))

    def pending(self, client: Client) -> Reply:
        """Read the pending update with GET."""
        return client.get(f"{self._prefix}/update-manifest")

    def cancel(self, client: Client) -> Reply:
        """Cancel the update with POST."""
        return client.call("POST", f"{self._prefix}/update-cancel", b"")

    def _body(self, raw: bytes, plan: str = "") -> bytes:
        if self.version == 1:
            return raw
        body = {"manifest": base64.b64encode(raw).decode(), **({"plan": plan} if plan else {})}
        return json.dumps(body).encode()


async def initiated(engine: Engine, raw: bytes, by: str = "alice") -> View:
    """Return the view after ``by`` has sent the update ``raw``."""
    sent = SentUpdate(user(by).der, raw)
    return await engine.submit(prepare_update(engine.view.running, sent, now=engine.current.now()))


async def acknowledged(engine: Engine, raw: bytes, by: str) -> View:
    """Return the view after ``by`` has agreed to the update ``raw``."""
    sent = SentUpdate(user(by).der, raw)
    return await engine.submit(
        prepare_acknowledgement(engine.view.running, sent, now=engine.current.now())
    )
