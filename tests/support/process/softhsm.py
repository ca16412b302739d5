"""A PKCS #11 token in software (SoftHSM) with keys and certificates of users and holders."""

import atexit
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from keyhouse.base.secret import Secret
from keyhouse.client import Address, TokenIdentity, TrustedCoordinator, verify_coordinator
from support.peers.peer import Peer, success
from support.peers.sdk import trust_in_peer
from support.samples.deployment import User
from support.samples.fixed_keys import unused_rsa_key

__all__ = [
    "LIBRARY",
    "PIN",
    "TOKEN",
    "children",
    "identity",
    "known_to",
    "needs_engine",
    "needs_token",
    "on_token",
    "put_key",
    "token",
    "trusted",
]

_STATUS: Final = success({"code": 3, "message": "running"})
TOKEN: Final = "house"  # noqa: S105 its label
PIN: Final = Secret(b"73910284")


def _library(name: str) -> Path:
    """Return the path of a distribution's library: below /usr/lib, or a folder deeper."""
    places = (Path("/usr/lib"), *Path("/usr/lib").glob("*-linux-*"))
    return next((place / name for place in places if (place / name).exists()), Path("/none"))


LIBRARY: Final = _library("softhsm/libsofthsm2.so")

_START: Final = datetime(2020, 1, 1, tzinfo=UTC)
_IN_CI: Final = "CI" in os.environ
_has_token: Final = shutil.which("softhsm2-util") is not None and LIBRARY.exists()
_has_engine: Final = _library("engines-3/pkcs11.so").exists()

needs_token: Final = pytest.mark.skipif(
    not (_IN_CI or _has_token), reason="SoftHSM (Debian: softhsm2) is not installed"
)
needs_engine: Final = pytest.mark.skipif(
    not (_IN_CI or (_has_token and _has_engine and shutil.which("openssl"))),
    reason="the token or OpenSSL's engine is not installed"
    " (Debian: softhsm2, openssl, libengine-pkcs11-openssl)",
)


@cache
def token() -> Path:
    """Make the only token of this process; return the folder. The library reads its place once."""
    folder = Path(tempfile.mkdtemp(prefix="keyhouse-token-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "tokens").mkdir()
    configuration = folder / "softhsm2.conf"
    configuration.write_text(f"directories.tokendir = {folder}/tokens\nlog.level = ERROR\n")
    os.environ["SOFTHSM2_CONF"] = str(configuration)
    pin = PIN.reveal().decode()
    _util("--init-token", "--free", "--label", TOKEN, "--so-pin", pin, "--pin", pin)
    return folder


def put_key(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, label: str, key_id: str) -> None:
    """Put ``key`` on the token. ``key_id`` is hex."""
    pem = token() / "key.pem"
    pem.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    named = ("--label", label, "--id", key_id)
    _util("--import", str(pem), "--token", TOKEN, "--pin", PIN.reveal().decode(), *named)
    pem.unlink()


@cache
def on_token(kind: str) -> User:
    """Return a user with a key of ``kind``: EC (P-256), P-384, RSA. The token has a copy.

    Label and id of the key and the certificate are ``kind``; the id is in ASCII.
    """
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey = (
        unused_rsa_key()
        if kind == "RSA"
        else ec.generate_private_key(ec.SECP384R1() if kind == "P-384" else ec.SECP256R1())
    )
    put_key(key, kind, kind.encode().hex())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{kind} on a token")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(_START)
        .not_valid_after(_START.replace(year=2100))
        .sign(key, hashes.SHA256())
    )
    _put_certificate(certificate, kind)
    return User(
        certificate.public_bytes(Encoding.DER),
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def _put_certificate(certificate: x509.Certificate, label: str) -> None:
    import pkcs11

    library: Any = pkcs11.lib(str(LIBRARY))
    with library.get_token(token_label=TOKEN).open(
        rw=True, user_pin=PIN.reveal().decode()
    ) as opened:
        opened.create_object(
            {
                pkcs11.Attribute.CLASS: pkcs11.ObjectClass.CERTIFICATE,
                pkcs11.Attribute.CERTIFICATE_TYPE: pkcs11.CertificateType.X_509,
                pkcs11.Attribute.TOKEN: True,
                pkcs11.Attribute.LABEL: label,
                pkcs11.Attribute.ID: label.encode(),
                pkcs11.Attribute.SUBJECT: certificate.subject.public_bytes(),
                pkcs11.Attribute.VALUE: certificate.public_bytes(Encoding.DER),
            }
        )


def _util(*arguments: str) -> None:
    """Run SoftHSM's tool."""
    ended = subprocess.run(
        ["softhsm2-util", *arguments], check=False, capture_output=True, text=True, env=os.environ
    )
    assert ended.returncode == 0, ended.stderr


def identity(kind: str = "EC", **changes: Any) -> TokenIdentity:
    plain = TokenIdentity(
        module=LIBRARY, token=TOKEN, pin=PIN, certificate=on_token(kind).pem, label=kind
    )
    return msgspec.structs.replace(plain, **changes)


def known_to(*kinds: str) -> Peer:
    """Return a peer that requests client certificates of the users of ``kinds``."""
    peer = Peer.new()
    peer.users = b"".join(on_token(kind).pem for kind in kinds)
    peer.replies["GET", "/api/v2/status"] = _STATUS
    return peer


def trusted(peer: Peer, address: Address) -> TrustedCoordinator:
    trust = trust_in_peer(peer)
    return verify_coordinator(
        address,
        expected=trust.expected,
        root_ca_der=trust.root_ca_der,
        collateral=trust.collateral,
    )


def children() -> set[int]:
    """Return the child processes of this process, including ended, uncollected children."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has ended meanwhile
            _state, parent, *_ = stat.read_bytes().rpartition(b")")[2].split()
            if int(parent) == os.getpid():
                found.add(int(stat.parent.name))
    return found
