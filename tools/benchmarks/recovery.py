"""Recovery of a journal with many records since the base, as after a run without compaction.

Compaction would remove the records. So this module appends the records directly to the journal,
with the data key. The share of the only holder is the data key.
"""

import asyncio
import base64
import secrets
from pathlib import Path
from typing import Final

import msgspec
from benchmarks.coordinator import Coordinator
from benchmarks.manifests import User, envelope, secret_name, secrets_manifest
from benchmarks.processes import TroubleError
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from keyhouse.authority import StoredSecret
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.events import SecretsUploaded, Uploaded
from keyhouse.coordinator.engine.records import encode_events
from keyhouse.journal import Journal, see_key
from keyhouse.journal.store.sqlite import SqliteStore
from keyhouse.wire.secret_types import SecretType

__all__ = ["recovery_seconds"]

_SECRETS: Final = 1000
_BATCH: Final = 1000  # records in a transaction


def recovery_seconds(coordinator: Coordinator, records: int, user: User) -> float:
    """Measure the seconds from the upload of the share to the answer after the recovery.

    ``coordinator`` has no manifest yet. The journal has ``records`` records after the base, each
    with one uploaded secret.
    """
    holder = rsa.generate_private_key(65537, 3072)
    _, answer = coordinator.exchange("/api/v2/manifest", envelope(_manifest(holder, user)))
    share = _share(answer, holder)
    coordinator.stop()
    asyncio.run(_append(coordinator.data, share, records))
    (coordinator.data / "sealed_key").unlink()
    coordinator.restart()
    body = {
        "recoverySecret": _text(share.reveal()),
        "recoverySecretSignature": _text(holder.sign(share.reveal(), padding.PKCS1v15(), SHA256())),
    }
    took, answer = coordinator.exchange("/api/v2/recover", msgspec.json.encode(body))
    if msgspec.json.decode(answer)["data"]["remaining"] != 0:
        raise TroubleError("the recovery is not complete")
    return took


def _manifest(holder: rsa.RSAPrivateKey, user: User) -> bytes:
    public = holder.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    document = msgspec.json.decode(secrets_manifest(_SECRETS, user))
    return msgspec.json.encode(document | {"RecoveryKeys": {"holder": public.decode("ascii")}})


def _share(answer: bytes, holder: rsa.RSAPrivateKey) -> Secret:
    """Return the share of the only holder. The share is the data key."""
    ciphertext = msgspec.json.decode(answer)["data"]["RecoverySecrets"]["holder"]
    oaep = padding.OAEP(padding.MGF1(SHA256()), SHA256(), label=None)
    return Secret(holder.decrypt(base64.b64decode(ciphertext), oaep))


async def _append(data: Path, dek: Secret, records: int) -> None:
    key = see_key(data)
    if key is None:
        raise TroubleError("the data directory does not contain sealed_key")
    store = await SqliteStore.open(data / "journal.db")
    try:
        journal, _ = await Journal.open(store, store_id=key.store_id, dek=dek)
        for begin in range(0, records, _BATCH):
            batch = range(begin, min(begin + _BATCH, records))
            await journal.append(list(encode_events(map(_upload, batch))))
    finally:
        await store.close()


def _upload(number: int) -> SecretsUploaded:
    value = Secret(secrets.token_bytes(32))
    name = secret_name(number % _SECRETS)
    upload = Uploaded(name, SecretType.SYMMETRIC_KEY, StoredSecret(value, value))
    return SecretsUploaded(0, "keeper", (upload,))


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")
