"""The operations as methods: with blocking calls, and for asyncio.

Generated from ``operations``: PYTHONPATH=tests .venv/bin/python -m support.sdk_methods
"""

from collections.abc import Mapping, Sequence

from keyhouse.client import operations, recovery
from keyhouse.client.exchange import Keep, Session
from keyhouse.client.http.connection import Connection
from keyhouse.client.http.connection_async import AsyncConnection
from keyhouse.client.operations import CurrentManifest
from keyhouse.client.public_log import LogCheckpoint
from keyhouse.client.trust import Trust, TrustedCoordinator
from keyhouse.wire import client_api as wire
from keyhouse.wire.plan import PlanData
from keyhouse.wire.secret_types import UserSecret


class Methods:
    """What can be asked of a verified coordinator, or told to it.

    All raise ``TrustError`` if another peer answers, or if the state that came with the answer
    contradicts the memory; ``UnreachableError`` if there is no answer; ``CallRefusedError`` or
    ``ServiceUnavailableError`` if the coordinator says no; ``AnswerUnreadableError`` if its answer
    is invalid.
    """

    _session: Session
    _connection: Connection

    def status(self) -> wire.Status:
        """Return the coordinator's phase."""
        return self._connection.run(operations.status(self._session))

    def attest(self, trust: Trust) -> TrustedCoordinator:
        """Return the coordinator as a quote over a fresh nonce proves it now, under the same root.

        Raises ``TrustError`` if it does not: its TCB may be outdated since it was verified, its
        witnesses may not have seen its log since, or its line may not be what ``trust`` demands.
        """
        return self._connection.run(operations.attest(self._session, trust))

    def manifest(self) -> CurrentManifest:
        """Return the manifest in force; its fingerprint and signature are checked.

        It is the last one in the line of the root, if there is a line. After an update the line is
        read again. Raises ``TrustError``.
        """
        return self._connection.run(operations.manifest(self._session))

    def verify_manifest(self, expected: bytes | str) -> CurrentManifest:
        """Return the manifest in force if it is ``expected``: its bytes, or its fingerprint in hex.

        Raises ``TrustError`` if another is in force.
        """
        return self._connection.run(operations.verify_manifest(self._session, expected))

    def update_log(self) -> tuple[wire.LogEntry, ...]:
        """Return the update log, oldest entry first."""
        return self._connection.run(operations.update_log(self._session))

    def activations(self, start: int | None = None) -> wire.Activations:
        """Return a page of the audit trail of activations, oldest first; for users who may update.

        ``start``: number of the first; the ``next`` of one page begins the following. None: the
        newest.
        """
        return self._connection.run(operations.activations(self._session, start))

    def refused_activations(self) -> wire.RefusedActivations:
        """Return which activations were refused, and why, newest first; for users who may update.

        They are those that the process that answers has refused since it began: with several
        coordinators, each knows its own. Equal ones are counted.
        """
        return self._connection.run(operations.refused_activations(self._session))

    def counters(self, start: int | None = None) -> wire.Counters:
        """Return limits and counters of workloads in a page of the trail; for users who may update.

        All limits of activations are in every page. ``start`` is as for ``activations``; a workload
        that is in two pages is answered in both.
        """
        return self._connection.run(operations.counters(self._session, start))

    def openapi(self) -> bytes:
        """Return the description of the interface, OpenAPI 3.1 in JSON, as it came."""
        return self._connection.run(operations.openapi(self._session))

    def set_manifest(self, manifest: bytes, keep: Keep | None = None) -> dict[str, bytes]:
        """Set the first manifest; return the encrypted recovery shares by key name.

        Afterwards the manifest in force has been read back and is this one, byte for byte. A memory
        has its fingerprint as that of the first manifest. The shares are given again only to users
        with ``UpdateManifest``, so ``keep`` gets them first.
        """
        return self._connection.run(operations.set_manifest(self._session, manifest, keep))

    def plan(self, manifest: bytes) -> PlanData:
        """Return what the update ``manifest`` would do; for users who may make or acknowledge it.

        Its ``digest`` stays the same until something else would happen, and binds the update to it.
        """
        return self._connection.run(operations.plan(self._session, manifest))

    def update(
        self, manifest: bytes, keep: Keep | None = None, plan: PlanData | str = ""
    ) -> wire.UpdateAnswer:
        """Upload an update, of security versions or of the whole manifest; return how far it is.

        ``keep`` gets the ``recovery_secrets`` of the answer before anything else can fail: later
        only a user with ``UpdateManifest`` is given them again. With a ``plan``, or its digest, it
        is refused if by now something else would happen.

        The user's key signs it, bound to a head of the log that has been verified; not for a
        coordinator without a log, nor with a key that is not ECDSA, RSA or Ed25519.
        """
        return self._connection.run(operations.update(self._session, manifest, keep, plan))

    def acknowledge(
        self, manifest: bytes, keep: Keep | None = None, plan: PlanData | str = ""
    ) -> wire.UpdateAnswer:
        """Agree to the pending update, which is ``manifest`` byte for byte; return how far it is.

        ``keep`` gets the ``recovery_secrets`` of the answer before anything else can fail: later
        only a user with ``UpdateManifest`` is given them again. With a ``plan``, or its digest, it
        is refused if by now something else would happen. It is signed as ``update`` is.
        """
        return self._connection.run(operations.acknowledge(self._session, manifest, keep, plan))

    def log_key(self) -> wire.LogKeyData:
        """Return the key of the transparency log. The root's signature over it has been checked."""
        return self._connection.run(operations.log_key(self._session))

    def log_checkpoint(self) -> LogCheckpoint:
        """Return the newest checkpoint of the transparency log, which its key has signed.

        It continues all that is remembered of the log: raises ``TrustError`` if it does not.
        """
        return self._connection.run(operations.log_checkpoint(self._session))

    def witnessed_checkpoint(self) -> LogCheckpoint:
        """Return the newest checkpoint of the transparency log that witnesses have cosigned.

        It is part of the log as it is now. Without witnesses it is the newest one.
        """
        return self._connection.run(operations.witnessed_checkpoint(self._session))

    def log_quote(self, nonce: bytes) -> wire.LogQuoteData:
        """Return the newest checkpoint that witnesses have cosigned, with a quote over it.

        The quote is over ``nonce`` as well, of 16 bytes at least. Neither is verified here, as they
        are for evidence files.
        """
        return self._connection.run(operations.log_quote(self._session, nonce))

    def log_part(self, path: str) -> bytes:
        """Return a part of the transparency log as it came: ``tile/...`` or ``object/...``.

        It is not verified: compare it with a checkpoint, or with its name.
        """
        return self._connection.run(operations.log_part(self._session, path))

    def line(self) -> wire.LineData:
        """Return the line of the root: each manifest that was in force, and what proves its entry.

        Its quote is not verified here: ``trusted.line`` is the line that was verified.
        """
        return self._connection.run(operations.line(self._session))

    def pending(self) -> wire.Pending | None:
        """Return the update that waits for acknowledgements, or None."""
        return self._connection.run(operations.pending(self._session))

    def cancel(self) -> None:
        """Cancel the pending update. It is signed by the user's key, as an update is."""
        return self._connection.run(operations.cancel(self._session))

    def secrets(self, names: Sequence[str]) -> dict[str, wire.SecretObject]:
        """Return the secrets of these names, all or none: ``secrets(["greeting"])``.

        Raises ``TypeError`` for a single string, whose letters would be read as names.
        """
        return self._connection.run(operations.secrets(self._session, names))

    def write_secrets(self, secrets: Mapping[str, UserSecret]) -> None:
        """Set user-defined secrets, all or none."""
        return self._connection.run(operations.write_secrets(self._session, secrets))

    def sign_quote(self, quote: bytes) -> wire.SignedQuote:
        """Return the root key's signature over any ``quote`` that the coordinator could verify.

        The signature has been checked: ECDSA, SHA-256 over ``base64(quote)`` and the TCB status.
        """
        return self._connection.run(operations.sign_quote(self._session, quote))

    def raise_counter(self, name: str, value: int) -> int:
        """Raise the counter ``name`` to ``value`` if it is lower; return what it was before.

        For marbles: the identity is the certificate of an activated workload.
        """
        return self._connection.run(operations.raise_counter(self._session, name, value))

    def recovery_offer(self) -> wire.Offer:
        """Return the key to encrypt recovery shares to, signed by the pinned root; and whose.

        Check it with ``require_root`` and ``require_listed`` before anything is sent.
        """
        return self._connection.run(operations.recovery_offer(self._session))

    def recover(self, encrypted_share: bytes, signature: bytes) -> wire.Progress:
        """Submit a share, encrypted to the key of ``recovery_offer``, with its signature."""
        return self._connection.run(operations.recover(self._session, encrypted_share, signature))

    def recover_with(
        self, key: recovery.RecoveryKey, encrypted_share: bytes, kept_root: bytes
    ) -> wire.Progress:
        """Decrypt the holder's share with ``key``; submit it, if the deployment is the kept one.

        ``kept_root``: the root certificate (DER) that the holder kept. Raises ``TrustError`` before
        anything is decrypted or sent if the state is of another deployment.
        """
        return self._connection.run(
            operations.recover_with(self._session, key, encrypted_share, kept_root)
        )

    def recovery_secrets(self) -> dict[str, bytes]:
        """Return the encrypted recovery shares by key name; for users who may update."""
        return self._connection.run(operations.recovery_secrets(self._session))


class AsyncMethods:
    """What can be asked of a verified coordinator, or told to it, on an event loop of asyncio.

    All raise what those of ``Methods`` do.
    """

    _session: Session
    _connection: AsyncConnection

    async def status(self) -> wire.Status:
        """Return the coordinator's phase."""
        return await self._connection.run(operations.status(self._session))

    async def attest(self, trust: Trust) -> TrustedCoordinator:
        """Return the coordinator as a quote over a fresh nonce proves it now, under the same root.

        Raises ``TrustError`` if it does not: its TCB may be outdated since it was verified, its
        witnesses may not have seen its log since, or its line may not be what ``trust`` demands.
        """
        return await self._connection.run(operations.attest(self._session, trust))

    async def manifest(self) -> CurrentManifest:
        """Return the manifest in force; its fingerprint and signature are checked.

        It is the last one in the line of the root, if there is a line. After an update the line is
        read again. Raises ``TrustError``.
        """
        return await self._connection.run(operations.manifest(self._session))

    async def verify_manifest(self, expected: bytes | str) -> CurrentManifest:
        """Return the manifest in force if it is ``expected``: its bytes, or its fingerprint in hex.

        Raises ``TrustError`` if another is in force.
        """
        return await self._connection.run(operations.verify_manifest(self._session, expected))

    async def update_log(self) -> tuple[wire.LogEntry, ...]:
        """Return the update log, oldest entry first."""
        return await self._connection.run(operations.update_log(self._session))

    async def activations(self, start: int | None = None) -> wire.Activations:
        """Return a page of the audit trail of activations, oldest first; for users who may update.

        ``start``: number of the first; the ``next`` of one page begins the following. None: the
        newest.
        """
        return await self._connection.run(operations.activations(self._session, start))

    async def refused_activations(self) -> wire.RefusedActivations:
        """Return which activations were refused, and why, newest first; for users who may update.

        They are those that the process that answers has refused since it began: with several
        coordinators, each knows its own. Equal ones are counted.
        """
        return await self._connection.run(operations.refused_activations(self._session))

    async def counters(self, start: int | None = None) -> wire.Counters:
        """Return limits and counters of workloads in a page of the trail; for users who may update.

        All limits of activations are in every page. ``start`` is as for ``activations``; a workload
        that is in two pages is answered in both.
        """
        return await self._connection.run(operations.counters(self._session, start))

    async def openapi(self) -> bytes:
        """Return the description of the interface, OpenAPI 3.1 in JSON, as it came."""
        return await self._connection.run(operations.openapi(self._session))

    async def set_manifest(self, manifest: bytes, keep: Keep | None = None) -> dict[str, bytes]:
        """Set the first manifest; return the encrypted recovery shares by key name.

        Afterwards the manifest in force has been read back and is this one, byte for byte. A memory
        has its fingerprint as that of the first manifest. The shares are given again only to users
        with ``UpdateManifest``, so ``keep`` gets them first.
        """
        return await self._connection.run(operations.set_manifest(self._session, manifest, keep))

    async def plan(self, manifest: bytes) -> PlanData:
        """Return what the update ``manifest`` would do; for users who may make or acknowledge it.

        Its ``digest`` stays the same until something else would happen, and binds the update to it.
        """
        return await self._connection.run(operations.plan(self._session, manifest))

    async def update(
        self, manifest: bytes, keep: Keep | None = None, plan: PlanData | str = ""
    ) -> wire.UpdateAnswer:
        """Upload an update, of security versions or of the whole manifest; return how far it is.

        ``keep`` gets the ``recovery_secrets`` of the answer before anything else can fail: later
        only a user with ``UpdateManifest`` is given them again. With a ``plan``, or its digest, it
        is refused if by now something else would happen.

        The user's key signs it, bound to a head of the log that has been verified; not for a
        coordinator without a log, nor with a key that is not ECDSA, RSA or Ed25519.
        """
        return await self._connection.run(operations.update(self._session, manifest, keep, plan))

    async def acknowledge(
        self, manifest: bytes, keep: Keep | None = None, plan: PlanData | str = ""
    ) -> wire.UpdateAnswer:
        """Agree to the pending update, which is ``manifest`` byte for byte; return how far it is.

        ``keep`` gets the ``recovery_secrets`` of the answer before anything else can fail: later
        only a user with ``UpdateManifest`` is given them again. With a ``plan``, or its digest, it
        is refused if by now something else would happen. It is signed as ``update`` is.
        """
        return await self._connection.run(
            operations.acknowledge(self._session, manifest, keep, plan)
        )

    async def log_key(self) -> wire.LogKeyData:
        """Return the key of the transparency log. The root's signature over it has been checked."""
        return await self._connection.run(operations.log_key(self._session))

    async def log_checkpoint(self) -> LogCheckpoint:
        """Return the newest checkpoint of the transparency log, which its key has signed.

        It continues all that is remembered of the log: raises ``TrustError`` if it does not.
        """
        return await self._connection.run(operations.log_checkpoint(self._session))

    async def witnessed_checkpoint(self) -> LogCheckpoint:
        """Return the newest checkpoint of the transparency log that witnesses have cosigned.

        It is part of the log as it is now. Without witnesses it is the newest one.
        """
        return await self._connection.run(operations.witnessed_checkpoint(self._session))

    async def log_quote(self, nonce: bytes) -> wire.LogQuoteData:
        """Return the newest checkpoint that witnesses have cosigned, with a quote over it.

        The quote is over ``nonce`` as well, of 16 bytes at least. Neither is verified here, as they
        are for evidence files.
        """
        return await self._connection.run(operations.log_quote(self._session, nonce))

    async def log_part(self, path: str) -> bytes:
        """Return a part of the transparency log as it came: ``tile/...`` or ``object/...``.

        It is not verified: compare it with a checkpoint, or with its name.
        """
        return await self._connection.run(operations.log_part(self._session, path))

    async def line(self) -> wire.LineData:
        """Return the line of the root: each manifest that was in force, and what proves its entry.

        Its quote is not verified here: ``trusted.line`` is the line that was verified.
        """
        return await self._connection.run(operations.line(self._session))

    async def pending(self) -> wire.Pending | None:
        """Return the update that waits for acknowledgements, or None."""
        return await self._connection.run(operations.pending(self._session))

    async def cancel(self) -> None:
        """Cancel the pending update. It is signed by the user's key, as an update is."""
        return await self._connection.run(operations.cancel(self._session))

    async def secrets(self, names: Sequence[str]) -> dict[str, wire.SecretObject]:
        """Return the secrets of these names, all or none: ``secrets(["greeting"])``.

        Raises ``TypeError`` for a single string, whose letters would be read as names.
        """
        return await self._connection.run(operations.secrets(self._session, names))

    async def write_secrets(self, secrets: Mapping[str, UserSecret]) -> None:
        """Set user-defined secrets, all or none."""
        return await self._connection.run(operations.write_secrets(self._session, secrets))

    async def sign_quote(self, quote: bytes) -> wire.SignedQuote:
        """Return the root key's signature over any ``quote`` that the coordinator could verify.

        The signature has been checked: ECDSA, SHA-256 over ``base64(quote)`` and the TCB status.
        """
        return await self._connection.run(operations.sign_quote(self._session, quote))

    async def raise_counter(self, name: str, value: int) -> int:
        """Raise the counter ``name`` to ``value`` if it is lower; return what it was before.

        For marbles: the identity is the certificate of an activated workload.
        """
        return await self._connection.run(operations.raise_counter(self._session, name, value))

    async def recovery_offer(self) -> wire.Offer:
        """Return the key to encrypt recovery shares to, signed by the pinned root; and whose.

        Check it with ``require_root`` and ``require_listed`` before anything is sent.
        """
        return await self._connection.run(operations.recovery_offer(self._session))

    async def recover(self, encrypted_share: bytes, signature: bytes) -> wire.Progress:
        """Submit a share, encrypted to the key of ``recovery_offer``, with its signature."""
        return await self._connection.run(
            operations.recover(self._session, encrypted_share, signature)
        )

    async def recover_with(
        self, key: recovery.RecoveryKey, encrypted_share: bytes, kept_root: bytes
    ) -> wire.Progress:
        """Decrypt the holder's share with ``key``; submit it, if the deployment is the kept one.

        ``kept_root``: the root certificate (DER) that the holder kept. Raises ``TrustError`` before
        anything is decrypted or sent if the state is of another deployment.
        """
        return await self._connection.run(
            operations.recover_with(self._session, key, encrypted_share, kept_root)
        )

    async def recovery_secrets(self) -> dict[str, bytes]:
        """Return the encrypted recovery shares by key name; for users who may update."""
        return await self._connection.run(operations.recovery_secrets(self._session))
