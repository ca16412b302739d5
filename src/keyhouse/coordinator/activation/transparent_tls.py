"""The configuration of transparent TLS, which a runtime reads from ``MARBLE_TTLS_CONFIG``.

Source: manifest format, "TLS".
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from keyhouse.authority import StoredSecret, certificate_pem, private_key_pem
from keyhouse.base.errors import ConflictError
from keyhouse.base.place import quoted
from keyhouse.coordinator.core.recipe import Recipe


def tls_config(
    recipe: Recipe, *, leaf: StoredSecret, secrets: Mapping[str, StoredSecret], marble_root: bytes
) -> bytes:
    """Return the JSON text for a marble type with TLS tags. As secret as the keys in it.

    Raises ``ConflictError`` if a secret that a port is served with has no certificate or key yet.
    """
    trusted = certificate_pem(marble_root)
    own = _entry(trusted, leaf)
    incoming: dict[str, dict[str, Any]] = {}
    for entry in recipe.incoming:
        served = own
        if entry.cert:
            served = _entry(trusted, _complete(entry.cert, secrets.get(entry.cert)))
        incoming[f"*:{entry.port}"] = {**served, "clientAuth": not entry.disable_client_auth}
    outgoing = {f"{entry.addr}:{entry.port}": own for entry in recipe.outgoing}
    return msgspec.json.encode({"tls": {"Incoming": incoming, "Outgoing": outgoing}})


def _entry(trusted: str, identity: StoredSecret) -> dict[str, str]:
    return {
        "cacrt": trusted,
        "clicrt": certificate_pem(identity.cert),
        "clikey": private_key_pem(identity.private),
    }


def _complete(name: str, value: StoredSecret | None) -> StoredSecret:
    if value is None or not (value.cert and value.private):
        raise ConflictError(
            f"secret {quoted(name)}, which a port is served with, has no certificate or key yet",
            hint="a user has to upload both with POST /api/v2/secrets",
        )
    return value
