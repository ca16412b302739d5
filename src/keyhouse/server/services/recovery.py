"""The recovery session: holders of recovery keys submit their shares in recovery mode.

Only the memory of this process holds submitted shares, so after a restart all shares are needed
again. Each share is verified at once against the recovery index. A refused share has no effect on
earlier shares. With the last missing share, the engine decrypts the journal and checks everything
again.

Everybody can upload, so a wrong upload has to be cheap. One upload at a time is verified, in a
thread. The private key decrypts only an upload with a valid signature over the hash of a share.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Final

import msgspec

from keyhouse import authority
from keyhouse.base.errors import BadRequestError, ConflictError, KeyhouseError, UnavailableError
from keyhouse.base.log import log
from keyhouse.base.printable import quoted
from keyhouse.base.secret import Secret
from keyhouse.coordinator import Engine, MakeReady, Operation, Recovering, Recovery, View, require
from keyhouse.server.net.concurrency import ConcurrencyLimit, FairQueue

WAITING: Final = 12_000
"""Largest number of uploads, and of callers who wait for the public key.

The number equals the largest number of connections. Clients take turns, so a flood excludes no
holder.
"""


class PublicKey(msgspec.Struct, frozen=True):
    """The public key for shares, and the facts that a holder verifies before sending a share."""

    # SubjectPublicKeyInfo DER, RSA 4096.
    public_key: bytes
    # By the temporary root, over the context and ``public_key``.
    signature: bytes
    index: authority.RecoveryIndex
    # Names of the recovery keys with a submitted share.
    received: tuple[str, ...]


class RecoveryProgress(msgspec.Struct, frozen=True):
    """The progress of the recovery. With ``remaining`` 0, the state is recovered.

    ``received``: the names of the recovery keys with a submitted share. ``witnessed``: whether a
    quorum of the witnesses has cosigned the recovered state; None before, or without witnesses.
    ``note`` states the consequence of missing cosignatures.
    """

    remaining: int
    received: tuple[str, ...]
    view: View
    witnessed: bool | None = None
    note: str = ""

    @property
    def message(self) -> str:
        """Return the progress of the recovery as text."""
        names = ", ".join(quoted(name) for name in self.received)
        if self.remaining:
            return f"received the shares of: {names}; {self.remaining} more needed"
        recovered = f"recovered with the shares of: {names}; verify the coordinator again"
        return f"{recovered}; {self.note}" if self.note else recovered


class RecoverySession:
    """Accepts shares while ``engine`` is in recovery mode. Use on the event loop's thread only.

    ``make_ready`` prepares the service under the recovered keys. ``make_key`` makes the key pair
    for shares.
    """

    def __init__(
        self,
        engine: Engine,
        make_ready: MakeReady,
        make_key: Callable[[], authority.EphemeralKey] = authority.EphemeralKey,
    ) -> None:
        self._engine = engine
        self._make_ready = make_ready
        self._make_key = make_key
        self._submitted: tuple[authority.SubmittedShare, ...] = ()
        self._key: Future[authority.EphemeralKey] | None = None
        # Over the public key.
        self._signature = b""
        # The first thread creates the key, which takes seconds. The second verifies uploads one by
        # one.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="recovery")
        self._waiting = ConcurrencyLimit(WAITING, "too many recovery requests are waiting")
        self._uploads = FairQueue(self._waiting)

    @property
    def received(self) -> tuple[str, ...]:
        """Return the names of the recovery keys with a submitted share, sorted."""
        return tuple(sorted(submission.name for submission in self._submitted))

    async def public_key(self) -> PublicKey:
        """Return the public key for shares, and the facts of the recovery index.

        The first call creates the key for all callers.

        Raises:
            WrongPhaseError, ConflictError, IndexDamagedError: there is nothing to recover, or there
                are no holders.
            UnavailableError: too many callers wait.
        """
        state = self._recovering()
        self._require_holders()
        with self._waiting.one():
            if self._key is None:
                self._key = self._threads.submit(self._make_key)
            made = await asyncio.wrap_future(_unshared(self._key))
        # The signature is deterministic, so it is created once for all callers.
        if not self._signature:
            self._signature = authority.sign_ephemeral_key(state.keys, made.public_key)
        return PublicKey(made.public_key, self._signature, self._index, self.received)

    async def upload(self, share: Secret, signature: bytes) -> RecoveryProgress:
        """Accept a share, plain or encrypted to the public key, with the signature of its holder.

        ``signature``: over the SHA-256 of the share. If the caller disconnects before its turn, the
        upload has no effect. If the caller disconnects later, the upload continues.

        Raises:
            BadRequestError, ShareRefusedError: this upload is refused; earlier shares still count.
            RecoveryRefusedError: the last share decrypted a state that must not be recovered; all
                shares are dropped.
            WrongPhaseError, ConflictError, IndexDamagedError: there is nothing to recover, or there
                are no holders.
            UnavailableError: the upload is not possible now; repeat only this upload.
        """
        self._recovering()
        self._require_holders()
        return await self._uploads.run(lambda: self._accept(share, signature))

    def end(self) -> None:
        """Drop the key pair for shares and all shares, because recovery mode has ended."""
        self._key, self._submitted = None, ()

    def close(self) -> None:
        """End the threads that check shares."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _accept(self, share: Secret, signature: bytes) -> RecoveryProgress:
        # Recovery mode may have ended while this upload waited.
        self._recovering()
        loop = asyncio.get_running_loop()
        submission = await loop.run_in_executor(self._threads, self._verify, share, signature)
        submitted = (*self._submitted, submission)
        if len(submitted) == self._index.threshold:
            return await self._recover(submitted)
        self._submitted = submitted
        log.warning("a recovery share was submitted", of=submission.name, received=self.received)
        remaining = self._index.threshold - len(submitted)
        return RecoveryProgress(remaining, self.received, self._engine.view)

    def _verify(self, share: Secret, signature: bytes) -> authority.SubmittedShare:
        received = self.received
        if len(share) not in authority.PLAIN_SIZES:
            authority.require_signer(self._index, signature, received)
            share = self._decrypted(share)
        return authority.verify_share(self._index, share, signature, received)

    def _decrypted(self, ciphertext: Secret) -> Secret:
        if self._key is None or not self._key.done():
            raise BadRequestError(
                "the share cannot be decrypted: nobody has requested this process's public key yet",
                fields={"recoverySecret": "is not encrypted to the present key"},
                hint="encrypt the share to the key that keyhouse recover public-key writes",
            )
        return self._key.result().decrypt(ciphertext.reveal())

    async def _recover(self, submitted: tuple[authority.SubmittedShare, ...]) -> RecoveryProgress:
        try:
            dek = authority.data_key(self._index, submitted)
            view = await self._engine.queue.add_recovery(Recovery(dek, submitted, self._make_ready))
        except UnavailableError:
            # The earlier shares stay valid.
            raise
        except KeyhouseError as error:
            self._submitted = ()
            log.warning("the recovery failed; all shares are needed again", reason=str(error))
            raise
        self.end()
        received = tuple(sorted(submission.name for submission in submitted))
        lease = self._engine.lease
        return RecoveryProgress(0, received, view, await lease.wait_cosigned(), lease.note)

    def _recovering(self) -> Recovering:
        """Return the state in recovery mode.

        In any other phase, drop the key and all shares, and raise ``WrongPhaseError``.
        """
        view = self._engine.view
        if not isinstance(view.state, Recovering):
            self.end()
        require(Operation.RECOVER, view.phase)
        assert isinstance(view.state, Recovering)  # noqa: S101 the table says so
        return view.state

    def _require_holders(self) -> None:
        if not self._index.holders:
            raise ConflictError(
                "this state has no recovery keys, so nobody can recover it",
                hint="start on the machine that sealed the state, or set a new manifest",
            )

    @cached_property
    def _index(self) -> authority.RecoveryIndex:
        return authority.read_recovery_index(self._recovering().recovery_index).index


def _unshared(future: Future[authority.EphemeralKey]) -> Future[authority.EphemeralKey]:
    """Return a separate future with the result of ``future``, for one caller.

    If the caller is cancelled, only the separate future is cancelled. ``future`` continues.
    """
    own: Future[authority.EphemeralKey] = Future()

    def copy(made: Future[authority.EphemeralKey]) -> None:
        if not own.set_running_or_notify_cancel():
            return
        if made.cancelled():
            own.set_exception(
                UnavailableError("the coordinator is stopping", hint="try again later")
            )
        else:
            own.set_result(made.result())

    future.add_done_callback(copy)
    return own
