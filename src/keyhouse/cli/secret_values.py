"""Values of secrets on their way out: as rows for people, or as the bytes alone."""

from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING

from keyhouse.base.errors import RefusedError
from keyhouse.base.pem import certificate_pem, private_key_pem
from keyhouse.base.printable import quoted

if TYPE_CHECKING:
    from keyhouse.client import SecretObject

_UPLOAD = "keyhouse secret set uploads one"


def raw_value(name: str, secret: "SecretObject", *, to_terminal: bool) -> bytes:
    """Return exactly the bytes of a key or of data; of a certificate PEM, then its private key.

    Raises ``RefusedError`` if there is no value, or if a terminal cannot show it.
    """
    if secret.private is None and not secret.cert:
        raise RefusedError(f"secret {quoted(name)} has no value yet", hint=_UPLOAD)
    value = secret.private.reveal() if secret.private else b""
    if secret.cert:
        key = private_key_pem(secret.private) if secret.private else ""
        return (certificate_pem(secret.cert) + key).encode()
    if to_terminal and not _is_text(value.removesuffix(b"\n")):
        raise RefusedError(
            f"secret {quoted(name)} is binary, and no terminal can show it",
            hint="-o FILE for a new file, or a pipe",
        )
    return value


def shown_values(fields: Mapping[str, object]) -> dict[str, str]:
    """Return the fields of a secret as text; a value that is private and public comes once."""
    rows = {name: _shown(value) for name, value in fields.items()}
    private, public = fields.get("private"), fields.get("public")
    if "cert" in fields or private != public:
        return rows
    del rows["private"], rows["public"]
    if isinstance(private, bytes) and not _is_text(private):
        return {**rows, "base64": _shown(private)}
    return {**rows, "value": private.decode() if isinstance(private, bytes) else _shown(private)}


def _is_text(value: bytes) -> bool:
    try:
        return value.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _shown(value: object) -> str:
    if value is None:
        return "not uploaded yet"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)
