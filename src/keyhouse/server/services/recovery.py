"""The recovery session: holders of recovery keys submit their shares while recovery mode lasts.

Submitted shares stay in the memory of this process: after a restart all are needed again. Each is
verified at once against the recovery index, which may only refuse: a bad one spoils nothing. The
last one that is missing lets the engine open the journal, where everything is checked again.

Anyone may upload, so garbage has to be cheap: one upload is verified at a time, off the event loop,
and the private key is used only for an upload whose signature verifies over a share's hash.
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
"""Uploads, and callers who wait for the public key, at a time; one more is told to try again.

As many as there can be connections, each of which has its turn: a flood locks no holder out.
"""


class PublicKey(msgspec.Struct, frozen=True):
    """What a holder needs to know before a share is submitted."""

    public_key: bytes  # SubjectPublicKeyInfo DER, RSA 4096
    signature: bytes  # by the temporary root over the context and ``public_key``
    index: authority.RecoveryIndex
    received: tuple[str, ...]  # names of the recovery keys whose shares are in


class Progress(msgspec.Struct, frozen=True):
    """How far the recovery has come. ``remaining`` 0: the state is recovered.

    Then ``witnessed`` tells whether a quorum of the witnesses has cosigned that state, if the
    manifest names any, and ``note`` what follows if not.
    """

    remaining: int
    received: tuple[str, ...]
    view: View
    witnessed: bool | None = None
    note: str = ""

    @property
    def message(self) -> str:
        """Return it in words."""
        names = ", ".join(quoted(name) for name in self.received)
        if self.remaining:
            return f"shares are in of: {names}; {self.remaining} more needed"
        recovered = f"recovered with the shares of: {names}; verify the coordinator again"
        return f"{recovered}; {self.note}" if self.note else recovered


class RecoverySession:
    """Takes shares in while ``engine`` is in recovery mode. Lives on the event loop's thread."""

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
        self._signature = b""  # over the public key
        # One makes the key, which takes seconds; the other verifies one upload at a time.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="recovery")
        self._waiting = ConcurrencyLimit(WAITING, "too many recovery requests are waiting")
        self._uploads = FairQueue(self._waiting)

    @property
    def received(self) -> tuple[str, ...]:
        """Return the names of the recovery keys whose shares are in, sorted."""
        return tuple(sorted(submission.name for submission in self._submitted))

    async def public_key(self) -> PublicKey:
        """Return the key to encrypt shares to, and what the index says.

        The key is made when the first caller asks for it, and then serves all of them.

        Raises:
            WrongPhaseError, ConflictError, IndexDamagedError: nothing to recover, or no holders.
            UnavailableError: too many wait for it.
        """
        state = self._recovering()
        self._require_holders()
        with self._waiting.one():
            if self._key is None:
                self._key = self._threads.submit(self._make_key)
            made = await asyncio.wrap_future(_unshared(self._key))
        if not self._signature:  # deterministic: made once, for all callers
            self._signature = authority.sign_ephemeral_key(state.keys, made.public_key)
        return PublicKey(made.public_key, self._signature, self._index, self.received)

    async def upload(self, share: Secret, signature: bytes) -> Progress:
        """Take in a share, plain or encrypted to the public key, with its holder's signature.

        A caller who leaves before its turn leaves nothing behind; one that has begun continues.

        Raises:
            BadRequestError, ShareRefusedError: this upload is not taken; what is in stays in.
            RecoveryRefusedError: it was the last one, and what all of them opened may not be
                recovered. Nothing stays in.
            WrongPhaseError, ConflictError, IndexDamagedError: nothing to recover, or no holders.
            UnavailableError: not now; only this upload has to be repeated.
        """
        self._recovering()
        self._require_holders()
        return await self._uploads.run(lambda: self._take(share, signature))

    def end(self) -> None:
        """Forget key and shares: recovery mode is over."""
        self._key, self._submitted = None, ()

    def close(self) -> None:
        """Give the threads back."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _take(self, share: Secret, signature: bytes) -> Progress:
        self._recovering()  # it may have ended while this one waited
        loop = asyncio.get_running_loop()
        submission = await loop.run_in_executor(self._threads, self._verify, share, signature)
        submitted = (*self._submitted, submission)
        if len(submitted) == self._index.threshold:
            return await self._recover(submitted)
        self._submitted = submitted
        log.warning("a recovery share was submitted", of=submission.name, received=self.received)
        remaining = self._index.threshold - len(submitted)
        return Progress(remaining, self.received, self._engine.view)

    def _verify(self, share: Secret, signature: bytes) -> authority.SubmittedShare:
        taken = self.received
        if len(share) not in authority.PLAIN_SIZES:
            authority.require_signer(self._index, signature, taken)
            share = self._decrypted(share)
        return authority.verify_share(self._index, share, signature, taken)

    def _decrypted(self, ciphertext: Secret) -> Secret:
        if self._key is None or not self._key.done():
            raise BadRequestError(
                "the share cannot be decrypted: nobody has asked for the public key yet",
                fields={"recoverySecret": "is not encrypted to the present key"},
                hint="encrypt it to the key that keyhouse recover public-key writes",
            )
        return self._key.result().decrypt(ciphertext.reveal())

    async def _recover(self, submitted: tuple[authority.SubmittedShare, ...]) -> Progress:
        try:
            dek = authority.data_key(self._index, submitted)
            view = await self._engine.recover(Recovery(dek, submitted, self._make_ready))
        except UnavailableError:
            raise  # the shares before this one are as good as they were
        except KeyhouseError as error:
            self._submitted = ()
            log.warning("the recovery failed; all shares are needed again", reason=str(error))
            raise
        self.end()
        received = tuple(sorted(submission.name for submission in submitted))
        lease = self._engine.lease
        return Progress(0, received, view, await lease.wait_cosigned(), lease.note)

    def _recovering(self) -> Recovering:
        """Return the state; raise ``WrongPhaseError`` and forget everything when it is over."""
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
                hint="bring back the machine that it was sealed on, or set a new manifest",
            )

    @cached_property
    def _index(self) -> authority.RecoveryIndex:
        return authority.read_recovery_index(self._recovering().recovery_index).index


def _unshared(future: Future[authority.EphemeralKey]) -> Future[authority.EphemeralKey]:
    """Return a future that ends as ``future`` does, and that a leaving caller may cancel."""
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
