"""Routes of version 2 for a recovery: the public key, uploads of shares, encrypted shares."""

from functools import lru_cache

import msgspec

from keyhouse.base.errors import BadRequestError, KeyhouseError
from keyhouse.coordinator import View, policy_of
from keyhouse.server.client_api.routes import UseCases
from keyhouse.server.http.body import read_body
from keyhouse.server.http.exchange import Admission, Answer, Head
from keyhouse.server.services.recovery import PublicKey
from keyhouse.wire import client_api as wire
from keyhouse.wire.field_presence import LEFT_OUT


def read_public_key(to: UseCases, _view: View, head: Head) -> Admission:
    """Return the public key that encrypts shares, and the recovery index.

    The answer also names the recovery keys with a received share. The temporary root of this
    process signs the public key.
    """

    async def answer(body: bytes) -> Answer:
        del body
        try:
            found = await to.recovery.public_key()
        except KeyhouseError as problem:
            return to.answers.refused(problem, head)
        return to.answers.shared(_public_key_data(found), to.answers.present())

    return Admission(0, answer)


async def upload_share(to: UseCases, _head: Head, body: bytes) -> Answer:
    """Accept a share of the data key. Return the number of missing shares.

    The upload of the last missing share recovers the state.
    """
    upload = read_body(body, wire.RecoverBody)
    missing = {
        name: "is missing or empty"
        for name, value in (
            ("recoverySecret", len(upload.recovery_secret)),
            ("recoverySecretSignature", len(upload.recovery_secret_signature)),
        )
        if not value
    }
    if missing:
        raise BadRequestError(
            "the upload needs a share and the signature of its holder",
            fields=missing,
            hint="send recoverySecret and recoverySecretSignature, both in base64",
        )
    progress = await to.recovery.upload(upload.recovery_secret, upload.recovery_secret_signature)
    witnessed = LEFT_OUT if progress.witnessed is None else progress.witnessed
    data = wire.Progress(progress.remaining, progress.message, witnessed)
    return to.answers.success(data, progress.view)


def read_ciphertexts(to: UseCases, view: View, head: Head) -> Answer:
    """Return the encrypted shares of all holders, to a user who may update the manifest."""
    policy_of(view.running.manifest).authorize_update(head.identity)
    to.engine.lease.require_decisions()
    data = wire.RecoverySecretsData(view.running.recovery.ciphertexts)
    return to.answers.success(data, view)


@lru_cache(maxsize=1)
def _public_key_data(key: PublicKey) -> bytes:
    index = key.index
    return msgspec.json.encode(
        wire.Offer(
            ephemeral_public_key=key.public_key,
            signature=key.signature,
            index=wire.RecoveryIndexData(
                root=index.root_cert,
                manifest_fingerprint=index.manifest_fingerprint.hex(),
                store_id=index.store_id.hex(),
                epoch=index.epoch,
                threshold=index.threshold,
                keys={holder.name: holder.public_key for holder in index.holders},
            ),
            received=key.received,
        )
    )
