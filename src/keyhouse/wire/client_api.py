"""Bodies of requests to the Client API, as they are after reading."""

import msgspec

from keyhouse.wire.user_secret import UserSecret

__all__ = ["ManifestBody", "SecretsBody"]


class ManifestBody(msgspec.Struct, frozen=True):
    """Body of ``POST /api/v2/manifest`` and of the update endpoints: base64 on the wire."""

    manifest: bytes = b""


class SecretsBody(msgspec.Struct, frozen=True):
    """Body of ``POST /api/v2/secrets``: secret name to what is uploaded."""

    secrets: dict[str, UserSecret] = {}
