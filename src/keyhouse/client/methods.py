"""The operations as methods: with blocking calls, and for asyncio.

Generated from ``operations``: PYTHONPATH=tests .venv/bin/python -m support.sdk_methods
"""

from collections.abc import Mapping, Sequence

from keyhouse.client import operations, recovery
from keyhouse.client.exchange import Keep, OperationSession
from keyhouse.client.http.connection import BlockingConnection
from keyhouse.client.http.connection_async import AsyncConnection
from keyhouse.client.operations import CurrentManifest
from keyhouse.client.public_log import LogCheckpoint
from keyhouse.client.trust import Trust, TrustedCoordinator
from keyhouse.wire import client_api as wire
from keyhouse.wire.plan import PlanData
from keyhouse.wire.secret_types import UserSecret


class Methods:
    """The operations on a verified coordinator.

    All operations raise ``TrustError`` if another peer answers, or if the state in the answer
    contradicts the memory. They raise ``UnreachableError`` without an answer, ``CallRefusedError``
    or ``ServiceUnavailableError`` for a refusal, and ``AnswerUnreadableError`` for an invalid
    answer.
    """

    _session: OperationSession
    _connection: BlockingConnection

    def status(self) -> wire.Status:
        """Return the coordinator's phase."""
        return self._connection.run(operations.status(self._session))

    def attest(self, trust: Trust) -> TrustedCoordinator:
        """Verify the coordinator again, with a quote over a fresh nonce and the same root.

        Call this from time to time in long sessions. Raises ``TrustError`` for a failed proof: by
        now the TCB may be outdated, too few witnesses may have seen the log, or the line may have
        a manifest that ``trust`` does not permit.
        """
        return self._connection.run(operations.attest(self._session, trust))

    def manifest(self) -> CurrentManifest:
        """Return the manifest in force, after a check of its fingerprint and signature.

        If the root has a line, the line lists the manifest as in force during the call. After an
        update, this function requests the line again. Raises ``TrustError``.
        """
        return self._connection.run(operations.manifest(self._session))

    def verify_manifest(self, expected: bytes | str) -> CurrentManifest:
        """Return the manifest in force if it is ``expected``: bytes, or a fingerprint in hex.

        Raises ``TrustError`` if a different manifest is in force.
        """
        return self._connection.run(operations.verify_manifest(self._session, expected))

    def update_log(self) -> tuple[wire.LogEntry, ...]:
        """Return the update log, oldest entry first."""
        return self._connection.run(operations.update_log(self._session))

    def activations(self, start: int | None = None) -> wire.Activations:
        """Return a page of the audit trail of activations, oldest first; for users who may update.

        ``start`` is the number of the first activation in the page. The field ``next`` of a page is
        the start of the next page. None selects the newest page.
        """
        return self._connection.run(operations.activations(self._session, start))

    def refused_activations(self) -> wire.RefusedActivations:
        """Return the refused activations and reasons, newest first; for users who may update.

        The list has the refusals of the answering process since its start. Each of several
        coordinators has its own list. Equal refusals are counted together.
        """
        return self._connection.run(operations.refused_activations(self._session))

    def counters(self, start: int | None = None) -> wire.Counters:
        """Return activation limits, and the counters of workloads; for users who may update.

        Every answer has the activation limits of all marble types, but the counters of only some
        workloads: those in the page of ``activations`` from number ``start``. None selects the
        newest page. A workload with activations in two pages is in the answers for both pages.
        """
        return self._connection.run(operations.counters(self._session, start))

    def workloads(self, start: str = "") -> wire.Workloads:
        """Return workloads that renew certificates, by page; for users who may revoke, or update.

        ``start`` is the field ``next`` of the previous page; empty selects the first page. Every
        page has all trusted marble roots.
        """
        return self._connection.run(operations.workloads(self._session, start))

    def revocations(self) -> wire.Revocations:
        """Return the revoked workloads and platforms; for users who may revoke, or update."""
        return self._connection.run(operations.revocations(self._session))

    def revoke(
        self, marble_type: str = "", uuid: str = "", platform: str = "", reason: str = ""
    ) -> wire.RevocationAnswer:
        """Revoke a workload (type and UUID), a marble type, or a platform (PPID or CHIP_ID).

        ``platform`` is in hex. The coordinator refuses the revoked certificates at once. Workloads
        accept these certificates until the time ``ends`` in the answer. ``reason`` is for the
        update log. Raises ``TypeError`` if neither a marble type nor a platform is named.
        """
        return self._connection.run(
            operations.revoke(self._session, marble_type, uuid, platform, reason)
        )

    def openapi(self) -> bytes:
        """Return the description of the interface, OpenAPI 3.1 in JSON, unchanged."""
        return self._connection.run(operations.openapi(self._session))

    def set_manifest(self, manifest: bytes, keep: Keep | None = None) -> dict[str, bytes]:
        """Set the first manifest; return the encrypted recovery shares by key name.

        The function ``keep`` gets the shares first, because later only users with
        ``UpdateManifest`` can read the shares. Then the manifest in force is read back, and must
        equal this manifest byte for byte. A memory stores its fingerprint as the first manifest.
        """
        return self._connection.run(operations.set_manifest(self._session, manifest, keep))

    def plan(self, manifest: bytes) -> PlanData:
        """Return the effects of the update ``manifest``; for users who may make or acknowledge it.

        The ``digest`` of the plan stays the same until the effects change. The digest binds the
        update to the plan.
        """
        return self._connection.run(operations.plan(self._session, manifest))

    def update(
        self, manifest: bytes, keep: Keep | None = None, plan: PlanData | str = ""
    ) -> wire.UpdateAnswer:
        """Upload an update, of security versions or of the whole manifest; return the progress.

        ``keep`` gets the ``recovery_secrets`` of the answer before any further step can fail. Later
        only users with ``UpdateManifest`` can read them. With a ``plan`` or its digest, the update
        is refused if the effects of the update now differ from the plan.

        The user's key signs the update, bound to a verified head of the log. Nothing is signed for
        a coordinator without a log, or with a key other than ECDSA, RSA or Ed25519.
        """
        return self._connection.run(operations.update(self._session, manifest, keep, plan))

    def acknowledge(
        self, manifest: bytes, keep: Keep | None = None, plan: PlanData | str = ""
    ) -> wire.UpdateAnswer:
        """Agree to the pending update, equal to ``manifest`` byte for byte; return the progress.

        ``keep`` gets the ``recovery_secrets`` of the answer before any further step can fail. Later
        only users with ``UpdateManifest`` can read them. With a ``plan`` or its digest, the
        acknowledgement is refused if the effects of the update now differ from the plan. The user's
        key signs the acknowledgement as for ``update``.
        """
        return self._connection.run(operations.acknowledge(self._session, manifest, keep, plan))

    def log_key(self) -> wire.LogKeyData:
        """Return the key of the transparency log, after a check of the root's signature."""
        return self._connection.run(operations.log_key(self._session))

    def log_checkpoint(self) -> LogCheckpoint:
        """Return the newest checkpoint of the transparency log, signed by the log's key.

        The checkpoint continues all remembered heads of the log; otherwise raises ``TrustError``.
        """
        return self._connection.run(operations.log_checkpoint(self._session))

    def witnessed_checkpoint(self) -> LogCheckpoint:
        """Return the newest cosigned checkpoint of the transparency log.

        The current log continues this checkpoint. Without witnesses, the result is the newest
        checkpoint.
        """
        return self._connection.run(operations.witnessed_checkpoint(self._session))

    def log_quote(self, nonce: bytes) -> wire.LogQuoteData:
        """Return the newest cosigned checkpoint, with a quote over the checkpoint and ``nonce``.

        ``nonce`` has at least 16 bytes. This function verifies neither checkpoint nor quote. Both
        are for an evidence file, and its readers verify both.
        """
        return self._connection.run(operations.log_quote(self._session, nonce))

    def log_part(self, path: str) -> bytes:
        """Return a part of the transparency log, unverified: ``tile/...`` or ``object/...``.

        Compare a tile with a checkpoint, and an object with its name.
        """
        return self._connection.run(operations.log_part(self._session, path))

    def line(self) -> wire.LineData:
        """Return the line of the root: each manifest that was in force, with its proofs.

        The result is not verified; ``trusted.line`` is the verified line.
        """
        return self._connection.run(operations.line(self._session))

    def pending(self) -> wire.Pending | None:
        """Return the update that waits for acknowledgements, or None."""
        return self._connection.run(operations.pending(self._session))

    def cancel(self) -> None:
        """Cancel the pending update. The user's key signs the cancellation as for ``update``."""
        return self._connection.run(operations.cancel(self._session))

    def secrets(self, names: Sequence[str]) -> dict[str, wire.SecretObject]:
        """Return the secrets with these names, all or none: ``secrets(["greeting"])``.

        Raises ``TypeError`` for a single string, because each letter would count as a name.
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
        """Raise the counter ``name`` to ``value`` if it is lower; return the counter's old value.

        Only workloads may call this. The user of the session is the certificate of an activated
        workload.
        """
        return self._connection.run(operations.raise_counter(self._session, name, value))

    def recovery_offer(self) -> wire.Offer:
        """Return the key for encrypting shares, signed by the pinned root, and the recovery index.

        Check the offer with ``require_root`` and ``require_listed`` before you send anything.
        """
        return self._connection.run(operations.recovery_offer(self._session))

    def recover(self, encrypted_share: bytes, signature: bytes) -> wire.Progress:
        """Submit a share and its signature; return the number of shares that are still missing.

        ``encrypted_share`` is encrypted to the key of ``recovery_offer``. ``signature`` is the
        holder's signature over the share before this encryption.
        """
        return self._connection.run(operations.recover(self._session, encrypted_share, signature))

    def recover_with(
        self, key: recovery.RecoveryKey, encrypted_share: bytes, kept_root: bytes
    ) -> wire.Progress:
        """Decrypt the holder's share with ``key``, and submit the share for the recovery.

        ``kept_root`` is the root certificate (DER) of the deployment, in the holder's copy. If the
        state to be recovered has another root, raises ``TrustError`` before any decryption or
        upload.
        """
        return self._connection.run(
            operations.recover_with(self._session, key, encrypted_share, kept_root)
        )

    def recovery_secrets(self) -> dict[str, bytes]:
        """Return the encrypted recovery shares by key name; for users who may update."""
        return self._connection.run(operations.recovery_secrets(self._session))


class AsyncMethods:
    """The operations on a verified coordinator, on an event loop of asyncio.

    All operations raise the errors of ``Methods``.
    """

    _session: OperationSession
    _connection: AsyncConnection

    async def status(self) -> wire.Status:
        """Return the coordinator's phase."""
        return await self._connection.run(operations.status(self._session))

    async def attest(self, trust: Trust) -> TrustedCoordinator:
        """Verify the coordinator again, with a quote over a fresh nonce and the same root.

        Call this from time to time in long sessions. Raises ``TrustError`` for a failed proof: by
        now the TCB may be outdated, too few witnesses may have seen the log, or the line may have
        a manifest that ``trust`` does not permit.
        """
        return await self._connection.run(operations.attest(self._session, trust))

    async def manifest(self) -> CurrentManifest:
        """Return the manifest in force, after a check of its fingerprint and signature.

        If the root has a line, the line lists the manifest as in force during the call. After an
        update, this function requests the line again. Raises ``TrustError``.
        """
        return await self._connection.run(operations.manifest(self._session))

    async def verify_manifest(self, expected: bytes | str) -> CurrentManifest:
        """Return the manifest in force if it is ``expected``: bytes, or a fingerprint in hex.

        Raises ``TrustError`` if a different manifest is in force.
        """
        return await self._connection.run(operations.verify_manifest(self._session, expected))

    async def update_log(self) -> tuple[wire.LogEntry, ...]:
        """Return the update log, oldest entry first."""
        return await self._connection.run(operations.update_log(self._session))

    async def activations(self, start: int | None = None) -> wire.Activations:
        """Return a page of the audit trail of activations, oldest first; for users who may update.

        ``start`` is the number of the first activation in the page. The field ``next`` of a page is
        the start of the next page. None selects the newest page.
        """
        return await self._connection.run(operations.activations(self._session, start))

    async def refused_activations(self) -> wire.RefusedActivations:
        """Return the refused activations and reasons, newest first; for users who may update.

        The list has the refusals of the answering process since its start. Each of several
        coordinators has its own list. Equal refusals are counted together.
        """
        return await self._connection.run(operations.refused_activations(self._session))

    async def counters(self, start: int | None = None) -> wire.Counters:
        """Return activation limits, and the counters of workloads; for users who may update.

        Every answer has the activation limits of all marble types, but the counters of only some
        workloads: those in the page of ``activations`` from number ``start``. None selects the
        newest page. A workload with activations in two pages is in the answers for both pages.
        """
        return await self._connection.run(operations.counters(self._session, start))

    async def workloads(self, start: str = "") -> wire.Workloads:
        """Return workloads that renew certificates, by page; for users who may revoke, or update.

        ``start`` is the field ``next`` of the previous page; empty selects the first page. Every
        page has all trusted marble roots.
        """
        return await self._connection.run(operations.workloads(self._session, start))

    async def revocations(self) -> wire.Revocations:
        """Return the revoked workloads and platforms; for users who may revoke, or update."""
        return await self._connection.run(operations.revocations(self._session))

    async def revoke(
        self, marble_type: str = "", uuid: str = "", platform: str = "", reason: str = ""
    ) -> wire.RevocationAnswer:
        """Revoke a workload (type and UUID), a marble type, or a platform (PPID or CHIP_ID).

        ``platform`` is in hex. The coordinator refuses the revoked certificates at once. Workloads
        accept these certificates until the time ``ends`` in the answer. ``reason`` is for the
        update log. Raises ``TypeError`` if neither a marble type nor a platform is named.
        """
        return await self._connection.run(
            operations.revoke(self._session, marble_type, uuid, platform, reason)
        )

    async def openapi(self) -> bytes:
        """Return the description of the interface, OpenAPI 3.1 in JSON, unchanged."""
        return await self._connection.run(operations.openapi(self._session))

    async def set_manifest(self, manifest: bytes, keep: Keep | None = None) -> dict[str, bytes]:
        """Set the first manifest; return the encrypted recovery shares by key name.

        The function ``keep`` gets the shares first, because later only users with
        ``UpdateManifest`` can read the shares. Then the manifest in force is read back, and must
        equal this manifest byte for byte. A memory stores its fingerprint as the first manifest.
        """
        return await self._connection.run(operations.set_manifest(self._session, manifest, keep))

    async def plan(self, manifest: bytes) -> PlanData:
        """Return the effects of the update ``manifest``; for users who may make or acknowledge it.

        The ``digest`` of the plan stays the same until the effects change. The digest binds the
        update to the plan.
        """
        return await self._connection.run(operations.plan(self._session, manifest))

    async def update(
        self, manifest: bytes, keep: Keep | None = None, plan: PlanData | str = ""
    ) -> wire.UpdateAnswer:
        """Upload an update, of security versions or of the whole manifest; return the progress.

        ``keep`` gets the ``recovery_secrets`` of the answer before any further step can fail. Later
        only users with ``UpdateManifest`` can read them. With a ``plan`` or its digest, the update
        is refused if the effects of the update now differ from the plan.

        The user's key signs the update, bound to a verified head of the log. Nothing is signed for
        a coordinator without a log, or with a key other than ECDSA, RSA or Ed25519.
        """
        return await self._connection.run(operations.update(self._session, manifest, keep, plan))

    async def acknowledge(
        self, manifest: bytes, keep: Keep | None = None, plan: PlanData | str = ""
    ) -> wire.UpdateAnswer:
        """Agree to the pending update, equal to ``manifest`` byte for byte; return the progress.

        ``keep`` gets the ``recovery_secrets`` of the answer before any further step can fail. Later
        only users with ``UpdateManifest`` can read them. With a ``plan`` or its digest, the
        acknowledgement is refused if the effects of the update now differ from the plan. The user's
        key signs the acknowledgement as for ``update``.
        """
        return await self._connection.run(
            operations.acknowledge(self._session, manifest, keep, plan)
        )

    async def log_key(self) -> wire.LogKeyData:
        """Return the key of the transparency log, after a check of the root's signature."""
        return await self._connection.run(operations.log_key(self._session))

    async def log_checkpoint(self) -> LogCheckpoint:
        """Return the newest checkpoint of the transparency log, signed by the log's key.

        The checkpoint continues all remembered heads of the log; otherwise raises ``TrustError``.
        """
        return await self._connection.run(operations.log_checkpoint(self._session))

    async def witnessed_checkpoint(self) -> LogCheckpoint:
        """Return the newest cosigned checkpoint of the transparency log.

        The current log continues this checkpoint. Without witnesses, the result is the newest
        checkpoint.
        """
        return await self._connection.run(operations.witnessed_checkpoint(self._session))

    async def log_quote(self, nonce: bytes) -> wire.LogQuoteData:
        """Return the newest cosigned checkpoint, with a quote over the checkpoint and ``nonce``.

        ``nonce`` has at least 16 bytes. This function verifies neither checkpoint nor quote. Both
        are for an evidence file, and its readers verify both.
        """
        return await self._connection.run(operations.log_quote(self._session, nonce))

    async def log_part(self, path: str) -> bytes:
        """Return a part of the transparency log, unverified: ``tile/...`` or ``object/...``.

        Compare a tile with a checkpoint, and an object with its name.
        """
        return await self._connection.run(operations.log_part(self._session, path))

    async def line(self) -> wire.LineData:
        """Return the line of the root: each manifest that was in force, with its proofs.

        The result is not verified; ``trusted.line`` is the verified line.
        """
        return await self._connection.run(operations.line(self._session))

    async def pending(self) -> wire.Pending | None:
        """Return the update that waits for acknowledgements, or None."""
        return await self._connection.run(operations.pending(self._session))

    async def cancel(self) -> None:
        """Cancel the pending update. The user's key signs the cancellation as for ``update``."""
        return await self._connection.run(operations.cancel(self._session))

    async def secrets(self, names: Sequence[str]) -> dict[str, wire.SecretObject]:
        """Return the secrets with these names, all or none: ``secrets(["greeting"])``.

        Raises ``TypeError`` for a single string, because each letter would count as a name.
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
        """Raise the counter ``name`` to ``value`` if it is lower; return the counter's old value.

        Only workloads may call this. The user of the session is the certificate of an activated
        workload.
        """
        return await self._connection.run(operations.raise_counter(self._session, name, value))

    async def recovery_offer(self) -> wire.Offer:
        """Return the key for encrypting shares, signed by the pinned root, and the recovery index.

        Check the offer with ``require_root`` and ``require_listed`` before you send anything.
        """
        return await self._connection.run(operations.recovery_offer(self._session))

    async def recover(self, encrypted_share: bytes, signature: bytes) -> wire.Progress:
        """Submit a share and its signature; return the number of shares that are still missing.

        ``encrypted_share`` is encrypted to the key of ``recovery_offer``. ``signature`` is the
        holder's signature over the share before this encryption.
        """
        return await self._connection.run(
            operations.recover(self._session, encrypted_share, signature)
        )

    async def recover_with(
        self, key: recovery.RecoveryKey, encrypted_share: bytes, kept_root: bytes
    ) -> wire.Progress:
        """Decrypt the holder's share with ``key``, and submit the share for the recovery.

        ``kept_root`` is the root certificate (DER) of the deployment, in the holder's copy. If the
        state to be recovered has another root, raises ``TrustError`` before any decryption or
        upload.
        """
        return await self._connection.run(
            operations.recover_with(self._session, key, encrypted_share, kept_root)
        )

    async def recovery_secrets(self) -> dict[str, bytes]:
        """Return the encrypted recovery shares by key name; for users who may update."""
        return await self._connection.run(operations.recovery_secrets(self._session))
