"""Talks to a verified coordinator, and to nobody else."""

import base64
import hashlib
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

import msgspec

from keyhouse.client.answers import (
    LogAnswer,
    LogEntry,
    ManifestAnswer,
    NoAnswer,
    Pending,
    PendingAnswer,
    SecretObject,
    SecretsAnswer,
    SetAnswer,
    Status,
    StatusAnswer,
    UpdateAnswer,
    UpdateEnvelope,
    data_of,
    log_entry,
)
from keyhouse.client.connection import Answer, Connection
from keyhouse.client.errors import CallRefused, ClientSetup, TrustFailed, shown
from keyhouse.client.manifest_signature import require_signature
from keyhouse.client.memory import Watch
from keyhouse.client.pinned_tls import pinned_context
from keyhouse.client.recovery import (
    Offer,
    OfferAnswer,
    Progress,
    ProgressAnswer,
    SharesAnswer,
    require_offer,
)
from keyhouse.client.trust import TrustedCoordinator
from keyhouse.wire.secret import Secret

__all__ = ["ClientIdentity", "Coordinator", "CurrentManifest", "Keep", "SecretUpload"]

_MAX_SMALL = 1 << 20
_MAX_LARGE = 64 << 20
_NOT_FOUND = 404

Keep = Callable[[Mapping[str, bytes]], None]
"""Puts encrypted recovery shares, by key name, where they are safe."""


class ClientIdentity(msgspec.Struct, frozen=True):
    """A user: files with the PEM certificate and its PEM private key, not encrypted."""

    certificate: Path
    key: Path


class CurrentManifest(msgspec.Struct, frozen=True):
    """The manifest in force. Fingerprint and the root's signature have been checked."""

    manifest: bytes
    fingerprint: str  # SHA-256, 64 lower-case hex digits
    signature: bytes  # ECDSA by the root, ASN.1 DER


class SecretUpload(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a user-defined secret: ``key`` alone, or ``cert`` with ``private``."""

    key: Secret | None = None
    cert: bytes = b""  # DER or PEM
    private: Secret | None = None  # PKCS #8 DER
    public: bytes = b""  # SubjectPublicKeyInfo, DER or PEM: has to be that of ``cert``


class Coordinator:
    """A session with ``trusted``. Each TLS handshake pins its root; use it with ``with``.

    All calls raise ``TrustFailed`` if another peer answers, or if the state that came with the
    answer contradicts the memory of ``trusted``; ``Unreachable`` if nobody answers; ``CallRefused``
    or ``CallPutOff`` if the coordinator says no.
    """

    def __init__(
        self,
        trusted: TrustedCoordinator,
        identity: ClientIdentity | None = None,
        *,
        timeout: float = 60.0,
    ) -> None:
        self._trusted = trusted
        context = pinned_context(trusted.root_der)
        if identity is not None:
            _show(context, identity)
        self._connection = Connection(trusted.address, context, timeout)
        self._watch = Watch(trusted.memory, trusted.address, trusted.root_der)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def status(self) -> Status:
        """Return the coordinator's phase."""
        answer = self._call("GET", "/api/v2/status", maximum=_MAX_SMALL)
        return data_of(answer, StatusAnswer).data

    def manifest(self) -> CurrentManifest:
        """Return the manifest in force; its fingerprint and signature are checked."""
        answer = self._call("GET", "/api/v2/manifest", maximum=_MAX_LARGE)
        data = data_of(answer, ManifestAnswer).data
        if hashlib.sha256(data.manifest).hexdigest() != data.fingerprint:
            raise TrustFailed("the manifest does not have the fingerprint that came with it")
        require_signature(self._trusted.root_der, data.manifest, data.signature)
        return CurrentManifest(data.manifest, data.fingerprint, data.signature)

    def set_manifest(self, manifest: bytes, keep: Keep | None = None) -> dict[str, bytes]:
        """Set the first manifest; return the encrypted recovery shares by key name.

        Afterwards the manifest in force has been read back and is this one, byte for byte. The
        shares can be had again only by a user with ``UpdateManifest``, so ``keep`` gets them first.
        """
        with self._once("/api/v2/manifest", manifest) as answer:
            shares = data_of(answer, SetAnswer).data.recovery_secrets
            if keep is not None:
                keep(shares)
        if self.manifest().manifest != manifest:
            raise TrustFailed("another manifest is in force than the one that was set")
        return shares

    def update(self, manifest: bytes, keep: Keep | None = None) -> UpdateAnswer:
        """Upload an update, of security versions or of the whole manifest; return how far it is.

        ``keep`` gets the ``recovery_secrets`` of the answer before anything else can fail: later
        only a user with ``UpdateManifest`` can have them again.
        """
        return self._agree("/api/v2/update", manifest, keep)

    def acknowledge(self, manifest: bytes, keep: Keep | None = None) -> UpdateAnswer:
        """Agree to the pending update, which is ``manifest`` byte for byte; return how far it is.

        ``keep`` gets the ``recovery_secrets`` of the answer before anything else can fail: later
        only a user with ``UpdateManifest`` can have them again.
        """
        return self._agree("/api/v2/update-manifest", manifest, keep)

    def pending(self) -> Pending | None:
        """Return the update that waits for acknowledgements. None: there is none."""
        answer = self._call("GET", "/api/v2/update-manifest", maximum=_MAX_LARGE)
        try:
            return data_of(answer, PendingAnswer).data
        except CallRefused as refused:
            if refused.http_status == _NOT_FOUND:
                return None
            raise

    def cancel(self) -> None:
        """Give the pending update up."""
        answer = self._call("POST", "/api/v2/update-cancel", maximum=_MAX_SMALL)
        data_of(answer, NoAnswer)

    def secrets(self, names: Sequence[str]) -> dict[str, SecretObject]:
        """Return the secrets of these names, all or none."""
        query = [("s", name) for name in names]
        answer = self._call("GET", "/api/v2/secrets", query=query, maximum=_MAX_LARGE)
        found = data_of(answer, SecretsAnswer).data.secrets
        if set(found) != set(names):
            raise TrustFailed("the answer has other secrets than those that were asked for")
        return found

    def write_secrets(self, secrets: Mapping[str, SecretUpload]) -> None:
        """Set user-defined secrets, all or none."""
        body = msgspec.json.encode({"secrets": {n: _upload(s) for n, s in secrets.items()}})
        answer = self._call("POST", "/api/v2/secrets", body=body, maximum=_MAX_SMALL)
        data_of(answer, NoAnswer)

    def recovery_offer(self) -> Offer:
        """Return the key to encrypt recovery shares to, signed by the pinned root; and whose.

        Before anything is sent, ``require_root`` and ``require_listed`` judge what it is for.
        """
        answer = self._call("GET", "/api/v2/recover/public-key", maximum=_MAX_LARGE)
        offer = data_of(answer, OfferAnswer).data
        require_offer(offer, self._trusted.root_der)
        return offer

    def recover(self, encrypted_share: bytes, signature: bytes) -> Progress:
        """Hand in a share, encrypted to the key of ``recovery_offer``, with its signature."""
        body = msgspec.json.encode(
            {"recoverySecret": encrypted_share, "recoverySecretSignature": signature}
        )
        answer = self._call("POST", "/api/v2/recover", body=body, maximum=_MAX_SMALL)
        return data_of(answer, ProgressAnswer).data

    def recovery_secrets(self) -> dict[str, bytes]:
        """Return the encrypted recovery shares by key name; for users who may update."""
        answer = self._call("GET", "/api/v2/recovery-secrets", maximum=_MAX_LARGE)
        return data_of(answer, SharesAnswer).data.recovery_secrets

    def update_log(self) -> tuple[LogEntry, ...]:
        """Return the update log, oldest entry first."""
        answer = self._call("GET", "/api/v2/update", maximum=_MAX_LARGE)
        return tuple(map(log_entry, data_of(answer, LogAnswer).data.update_log))

    def _agree(self, path: str, manifest: bytes, keep: Keep | None) -> UpdateAnswer:
        with self._once(path, manifest) as answer:
            envelope = data_of(answer, UpdateEnvelope)
            if keep is not None:
                keep(envelope.data.recovery_secrets)
        message = shown(envelope.data.message or envelope.message)
        return msgspec.structs.replace(envelope.data, message=message)

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: bytes | None = None,
        maximum: int,
    ) -> Answer:
        """Return the answer; it goes on from what is remembered."""
        known = self._watch.begin()
        answer = self._connection.call(method, path, query=query, body=body, maximum=maximum)
        self._watch.judge(known, answer.state, answer.http_status)
        return answer

    @contextmanager
    def _once(self, path: str, manifest: bytes) -> Iterator[Answer]:
        """POST ``manifest``; the answer is judged by the memory when it has been kept.

        Nobody gets it a second time, and a memory that cannot be written must not lose it.
        """
        body = msgspec.json.encode({"manifest": manifest})
        known = self._watch.begin()
        answer = self._connection.call("POST", path, body=body, maximum=_MAX_LARGE)
        try:
            yield answer
        finally:
            self._watch.judge(known, answer.state, answer.http_status)


def _upload(secret: SecretUpload) -> dict[str, str]:
    fields = {
        "key": secret.key.reveal() if secret.key else b"",
        "cert": secret.cert,
        "private": secret.private.reveal() if secret.private else b"",
        "public": secret.public,
    }
    return {name: base64.b64encode(v).decode() for name, v in fields.items() if v}


def _show(context: ssl.SSLContext, identity: ClientIdentity) -> None:
    """Let ``context`` present the user's certificate."""
    try:
        context.load_cert_chain(identity.certificate, identity.key, password=_refuse_password)
    except (OSError, ssl.SSLError, ValueError):
        raise ClientSetup(
            f"the user certificate {identity.certificate} with the key {identity.key}"
            " cannot be used",
            hint="both are PEM files that can be read; the key belongs to the certificate"
            " and is not encrypted",
        ) from None


def _refuse_password() -> NoReturn:
    """Stand in for OpenSSL's question on the terminal."""
    raise ValueError("the key is encrypted")
