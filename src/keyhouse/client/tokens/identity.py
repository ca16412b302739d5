"""A user whose private key signs in TLS on a PKCS #11 token. The key never leaves the token.

The ``openssl`` program carries the connection (``openssl_program``). This program and OpenSSL's
engine for tokens must be installed (Debian: ``openssl``, ``libengine-pkcs11-openssl``).
"""

from pathlib import Path
from urllib.parse import quote

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from keyhouse.base.hex_repr import Readable
from keyhouse.base.secret import Secret
from keyhouse.client.errors import ClientSetupError
from keyhouse.client.tokens.session import LOOK, open_token


class TokenIdentity(Readable, frozen=True, kw_only=True):
    """A user whose private key is on a token, with this ``label`` and ``key_id``.

    Either label or id may be empty.
    """

    # The PKCS #11 library of the token.
    module: Path
    # The label of the token.
    token: str
    pin: Secret
    # PEM.
    certificate: bytes
    label: str = ""
    key_id: bytes = b""

    def __post_init__(self) -> None:
        """Check labels, id, path and PIN. Raises ``ClientSetupError``."""
        if not (self.token and (self.label or self.key_id)):
            raise ClientSetupError(
                "a key on a token needs the token's label, and the key's label or id",
                hint="pass the label of the token, and --pkcs11-key-label or --pkcs11-key-id",
            )
        if not (_is_text(self.token) and _is_text(self.label)):
            raise ClientSetupError(
                "the labels of a token and its key must be UTF-8", hint="pass labels in UTF-8"
            )
        # The loader would search another path elsewhere.
        if not self.module.is_absolute() or "\0" in str(self.module):
            raise ClientSetupError(
                "the path of the token's PKCS #11 library must be absolute",
                hint="pass a path that begins with /",
            )
        if any(byte in self.pin.reveal() for byte in b"\0\r\n") or not self.pin.reveal():
            raise ClientSetupError(
                "the PIN must be a single line, and must not be empty", hint="correct the PIN"
            )

    def uri(self, pin_file: str) -> str:
        """Return the key's URI (RFC 7512). ``pin_file`` is the path of a file with the PIN."""
        path = [f"token={quote(self.token, safe='')}"]
        if self.label:
            path.append(f"object={quote(self.label, safe='')}")
        if self.key_id:
            path.append("id=" + "".join(f"%{byte:02x}" for byte in self.key_id))
        return f"pkcs11:{';'.join(path)};type=private?pin-source=file:{pin_file}"


def read_token(
    module: Path,
    *,
    token: str,
    pin: Secret,
    label: str = "",
    key_id: bytes = b"",
    certificate: bytes | None = None,
    certificate_label: str = "",
    certificate_id: bytes = b"",
) -> TokenIdentity:
    """Return the user whose key has this ``label`` and ``key_id`` on a token.

    ``module`` is the PKCS #11 library of the token, and ``token`` its label. ``certificate`` is
    PEM. Without it, the token must have the certificate under ``certificate_label`` and
    ``certificate_id``, or, if both are empty, under label and id of the key. This needs the extra
    ``keyhouse[pkcs11]``. Raises ``ClientSetupError``. Messages never contain the PIN.
    """
    if certificate is None:
        named = bool(certificate_label or certificate_id)
        certificate = _certificate(
            module,
            token,
            pin,
            certificate_label if named else label,
            certificate_id if named else key_id,
        )
    return TokenIdentity(
        module=module, token=token, pin=pin, certificate=certificate, label=label, key_id=key_id
    )


def _is_text(label: str) -> bool:
    return label == label.encode(errors="replace").decode()


def _certificate(module: Path, token: str, pin: Secret, label: str, found_by: bytes) -> bytes:
    """Return the single certificate on the token with this label and the id ``found_by``, PEM.

    An empty label or id matches any.
    """
    with open_token(module, token, pin) as opened:
        import pkcs11

        wanted: dict[pkcs11.Attribute, object] = {
            pkcs11.Attribute.CLASS: pkcs11.ObjectClass.CERTIFICATE
        }
        if label:
            wanted[pkcs11.Attribute.LABEL] = label
        if found_by:
            wanted[pkcs11.Attribute.ID] = found_by
        try:
            values = [bytes(one[pkcs11.Attribute.VALUE]) for one in opened.get_objects(wanted)]
        except pkcs11.PKCS11Error as error:
            raise ClientSetupError(
                f"the token {token!r} cannot be read ({type(error).__name__})", hint=LOOK
            ) from None
    if len(values) != 1:
        raise ClientSetupError(
            f"the token has {len(values)} certificates with this label or id, expected 1", hint=LOOK
        )
    try:
        return x509.load_der_x509_certificate(values[0]).public_bytes(Encoding.PEM)
    except (ValueError, x509.InvalidVersion):
        raise ClientSetupError(
            "the certificate on the token must be X.509, but cannot be read",
            hint="pass the certificate as a file: --cert FILE",
        ) from None
