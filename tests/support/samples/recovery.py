"""Holders of recovery keys, and their actions to restore a lost state."""

import base64
import json
from functools import cache
from typing import Any, NamedTuple

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_public_key,
)

from support.process.server import Client, Reply
from support.samples.deployment import manifest, user
from support.samples.fixed_keys import unused_rsa_key

OAEP = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), label=None)


class Holder(NamedTuple):
    """A holder of a recovery key."""

    name: str
    key: rsa.RSAPrivateKey

    @property
    def public_pem(self) -> str:
        """The public key in the manifest."""
        public = self.key.public_key()
        return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    @property
    def private_pem(self) -> bytes:
        """The private key in the holder's file."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def share(self, ciphertext: bytes) -> bytes:
        """Decrypt the share."""
        return self.key.decrypt(ciphertext, OAEP)

    def sign(self, share: bytes) -> bytes:
        """Sign a plain share."""
        return self.key.sign(share, padding.PKCS1v15(), hashes.SHA256())


@cache
def holder(name: str) -> Holder:
    """Return the holder ``name``: the same in the whole test run."""
    return Holder(name, unused_rsa_key())


def holders(count: int) -> list[Holder]:
    """Return the holders ``rk0``, ``rk1``, ...."""
    return [holder(f"rk{number}") for number in range(count)]


def recoverable(keys: list[Holder], threshold: int = 0, secrets: int = 3, **sections: Any) -> bytes:
    """Return a manifest with the recovery keys ``keys``; ``admin`` may update the manifest."""
    config = {"RecoveryThreshold": threshold} if threshold else {}
    content = json.loads(manifest(secrets, **config))
    if keys:
        content["RecoveryKeys"] = {each.name: each.public_pem for each in keys}
    content["Users"]["admin"] = {"Certificate": user("admin").pem.decode(), "Roles": ["admin"]}
    content["Roles"]["admin"] = {"ResourceType": "Manifest", "Actions": ["UpdateManifest"]}
    return json.dumps(content | sections).encode()


def encrypted(public_key: bytes, share: bytes) -> bytes:
    """Encrypt a share to the coordinator's ephemeral key (SubjectPublicKeyInfo DER)."""
    key = load_der_public_key(public_key)
    assert isinstance(key, rsa.RSAPublicKey)
    return key.encrypt(share, OAEP)


def hand_in(client: Client, share: bytes, signature: bytes) -> Reply:
    """Upload a share, plain or encrypted, over HTTPS."""
    body = {
        "recoverySecret": base64.b64encode(share).decode(),
        "recoverySecretSignature": base64.b64encode(signature).decode(),
    }
    return client.post("/api/v2/recover", body)


def ciphertexts_of(reply: Reply) -> dict[str, bytes]:
    """Return the encrypted shares in the answer to a manifest, by holder."""
    found = reply.data["RecoverySecrets"]
    return {name: base64.b64decode(text) for name, text in found.items()}


def ephemeral_key(client: Client) -> bytes:
    """Return the coordinator's ephemeral key."""
    return base64.b64decode(client.get("/api/v2/recover/public-key").data["ephemeralPublicKey"])
