"""The deployments of this user's contexts, each with a verified session.

If the verification of a coordinator fails, the console distrusts this coordinator until the user
starts a new verification.
"""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from keyhouse.base.errors import ConflictError, KeyhouseError, NotFoundError, RefusedError
from keyhouse.base.secret import Secret
from keyhouse.client import (
    AsyncCoordinator,
    CallRefusedError,
    ClientIdentity,
    ClientSetupError,
    Offer,
    PemIdentity,
    TokenIdentity,
    TrustedCoordinator,
    TrustError,
    UnreachableError,
    User,
    verify_async,
)
from keyhouse.client.contexts import SavedContext, contexts_path, read
from keyhouse.client.errors import CallUnknownError
from keyhouse.client.from_context import SelectedContext, described
from keyhouse.client.pem_faults import is_encrypted
from keyhouse.client.tokens.config import read_token_file
from keyhouse.console.live import PERIOD, RECOVERY_PERIOD, Live
from keyhouse.console.public_log import LoadedLog
from keyhouse.console.recovery_state import RECOVERY_MODE, offer_of, require_recovered
from keyhouse.console.results import Draft, Results
from keyhouse.manifest import Manifest, Permissions, decode

_ACCEPTING: Final = 2  # the phase before the first manifest
_TIMEOUT: Final = 30.0  # seconds for a whole call, chosen: longer than the slowest answer, a quote
# Seconds for a poll. A silent host makes the header grey after this time.
_POLL_TIMEOUT: Final = 10.0


class Link(msgspec.Struct, frozen=True):
    """A session with a verified coordinator, and the context of this coordinator.

    ``verified`` is the time of the verification. ``certificate`` is the certificate of the
    session's user (DER), or empty without a user.
    """

    coordinator: AsyncCoordinator
    described: SelectedContext
    verified: datetime  # UTC
    certificate: bytes


class ManifestInForce(msgspec.Struct, frozen=True):
    """The manifest in force. ``user`` is the name of the session's user in this manifest, or "".

    ``head`` is the head of the log before the manifest was read, or "" if unknown.
    """

    manifest: Manifest
    fingerprint: str
    permissions: Permissions
    user: str
    head: str = ""


class InRecoveryError(ConflictError):
    """The coordinator waits for its recovery.

    ``offer`` has the coordinator's key for shares, and the recovery index of the lost state.
    """

    code = "in-recovery"

    def __init__(self, offer: Offer) -> None:
        super().__init__("the coordinator waits for its recovery", hint="open the page Recovery")
        self.offer = offer


class ConsoleDeployment:
    """A deployment in the console: context ``name``, session, draft, results and part of the log.

    With ``read_only``, the console never reads the user's key.
    """

    def __init__(self, name: str, context: SavedContext, *, read_only: bool) -> None:
        self.name = name
        self.context = context
        self.read_only = read_only
        self.log = LoadedLog()
        self.results = Results()
        self.draft = Draft()
        self.distrust: TrustError | None = None
        # The offer of a coordinator in recovery mode, and the time at which the console saw the end
        # of a recovery (UTC).
        self.offer: Offer | None = None
        self.recovered: datetime | None = None
        # Whether an update waits for "you" or for "others"; "" without a pending update.
        self.waiting = ""
        # Time of the first failure since the last answer (UTC).
        self.unreachable_since: datetime | None = None
        self.live = Live(self.read_news)
        self._root = ""
        self._password: Secret | None = None
        self._link: Link | None = None
        self._in_force: ManifestInForce | None = None
        self._connecting = asyncio.Lock()

    @property
    def simulated(self) -> bool:
        """Whether the platform is simulated, so the quote proves nothing about hardware."""
        return bool(self.context.simulation_root)

    @property
    def verified(self) -> datetime | None:
        """Time of the last verification, or None if the coordinator is not verified now."""
        return self._link.verified if self._link is not None and self.distrust is None else None

    async def link(self) -> Link:
        """Return the session with the coordinator; without a session, first verify the coordinator.

        Raises the errors of ``AsyncCoordinator.connect``. After a failed verification, each call
        raises the same ``TrustError``, until ``verify_again``.
        """
        async with self._connecting:
            if self.distrust is not None:
                raise self.distrust
            if self.offer is not None:
                await self._end_of_recovery(self.offer)
            if self._link is None:
                self._link = await self._verified()
                self._root = root_fingerprint(self._link)
            return self._link

    async def _end_of_recovery(self, offer: Offer) -> None:
        """Begin a session if the recovery of ``offer`` has ended: verify the coordinator again.

        Raises ``InRecoveryError`` if the coordinator still waits for shares, and ``TrustError``
        unless the coordinator has the root of ``offer``.
        """
        self.offer = await offer_of(self.name, self._root) or offer
        if self.offer is not offer:
            raise InRecoveryError(self.offer)
        link = await self._verified()
        try:
            require_recovered(link.coordinator.trusted.root_der, offer)
        except TrustError:
            await link.coordinator.close()
            raise
        self._link, self._root = link, root_fingerprint(link)
        self.offer, self.recovered = None, datetime.now(UTC)

    async def find_recovery(self) -> Offer | None:
        """Verify the coordinator with a fresh quote; return its offer if it is in recovery mode.

        Pages call this method after a failed verification, because recovery mode is not an attack
        by itself. With an offer, the session ends, and the coordinator is not distrusted any more.
        If the verification fails, or the lost state is of a different deployment, return None.
        """
        try:
            offer = await offer_of(self.name, self._root)
        except KeyhouseError:
            return None
        if offer is not None:
            await self.close()
            self.distrust, self.offer, self.recovered = None, offer, None
        return offer

    async def _verified(self) -> Link:
        found = await asyncio.to_thread(self._described)
        try:
            trusted = await verify_async(found.address, found.trust, found.memory, timeout=_TIMEOUT)
        except TrustError as error:
            self.distrust = error
            raise
        offer = await self._offer_before(trusted)
        if offer is not None:
            self.offer = offer
            raise InRecoveryError(offer)
        certificate = await asyncio.to_thread(_certificate_of, found.user)
        coordinator = AsyncCoordinator(trusted, found.user, timeout=_TIMEOUT)
        return Link(coordinator, found, datetime.now(UTC), certificate)

    async def _offer_before(self, trusted: TrustedCoordinator) -> Offer | None:
        """Return the offer of the verified coordinator ``trusted``; None outside recovery mode.

        The console calls this method before each new session.
        """
        async with AsyncCoordinator(trusted, None, timeout=_TIMEOUT) as coordinator:
            if (await coordinator.status()).code != RECOVERY_MODE:
                return None
        return await offer_of(self.name, self._root)

    def _described(self) -> SelectedContext:
        return described(self.name, self._password, anonymous=self.is_anonymous)

    @property
    def is_anonymous(self) -> bool:
        """Whether the session is anonymous, without the user of the context."""
        return self.read_only or self.needs_password or not self.context.user_is_on

    async def read_news(self, sections: frozenset[str]) -> tuple[object, ...]:
        """Poll the coordinator; return a value that differs after a change of the pages' content.

        ``sections`` are the sections of the open pages; the page Workloads costs further requests.
        The value covers the header and the menu, too. A distrusted coordinator receives no request.
        """
        details: tuple[object, ...] = ()
        if self.distrust is None:
            try:
                async with asyncio.timeout(_POLL_TIMEOUT):
                    details = await self._read_details(sections)
            except TimeoutError:
                self.mark_unreachable()
            except TrustError as error:
                if await self.find_recovery() is None:
                    self.distrust = error
            except UnreachableError:
                self.mark_unreachable()
            except KeyhouseError:
                # A coordinator that states a refusal or its recovery is reachable.
                self.unreachable_since, self.waiting = None, ""
        self.live.period = PERIOD if self.offer is None else RECOVERY_PERIOD
        received = () if self.offer is None else tuple(self.offer.received)
        header = self.waiting, self.identity, self.unreachable_since, self.recovered
        return (*header, self.offer is None, received, self.distrust, *details)

    async def _read_details(self, sections: frozenset[str]) -> tuple[object, ...]:
        link = await self.link()
        pending = await link.coordinator.pending()
        self.unreachable_since = None
        await self.identify()
        self.waiting = ""
        missing: tuple[str, ...] = ()
        if pending is not None:
            missing = pending.missing_users
            self.waiting = "you" if self.identity in missing else "others"
        found: tuple[object, ...] = ()
        if "workloads" in sections:
            # The page itself reports a refusal to list workloads.
            with contextlib.suppress(CallRefusedError, CallUnknownError):
                found = await _workloads(link.coordinator)
        return (pending and pending.manifest, missing, link.coordinator.log_head, *found)

    def mark_unreachable(self) -> None:
        """Record that the coordinator does not answer, with the time of the first failure."""
        self.unreachable_since = self.unreachable_since or datetime.now(UTC)

    @property
    def identity(self) -> str:
        """The name of the session's user in the manifest in force, or "" if unknown."""
        return self._in_force.user if self._in_force is not None else ""

    async def identify(self) -> None:
        """Read the manifest in force to find the name for ``identity``, once for each session.

        Errors are ignored: then the name stays unknown.
        """
        if self._link is None or self._in_force is not None or self.distrust is not None:
            return
        if self._link.certificate:
            with contextlib.suppress(KeyhouseError):
                await self.in_force()

    @property
    def needs_password(self) -> bool:
        """Whether the user's key needs a password that nobody has entered yet."""
        if self._password is not None or self.read_only:
            return False
        match self.context.user_is_on:
            case "files":
                return _is_encrypted(Path(self.context.key))
            case "pkcs12":
                return True
            case "token":
                return not _has_pin(self.context.pkcs11_config)
            case "":
                return False

    async def unlock(self, password: Secret) -> None:
        """Begin a session with the user's key, which ``password`` decrypts or unlocks.

        Only a request shows whether the password is right. A token locks after a few wrong
        passwords, so the console keeps a password only after a successful request. Raises
        ``ClientSetupError``, and the errors of ``link``.
        """
        before, self._password = self._password, password
        await self.close()
        try:
            await (await self.link()).coordinator.status()
        except BaseException:
            self._password = before
            await self.close()
            raise

    async def verify_again(self) -> None:
        """End the session, and verify the coordinator with a fresh nonce.

        The method also ends the distrust after a failed verification. Raises the errors of
        ``link``.
        """
        self.distrust = None
        await self.close()
        await self.link()

    async def close(self) -> None:
        """Close the session with the coordinator of this deployment."""
        async with self._connecting:
            link, self._link, self._in_force = self._link, None, None
            if link is not None:
                await link.coordinator.close()

    async def has_manifest(self) -> bool:
        """Return whether the coordinator already has its first manifest."""
        link = await self.link()
        if self._in_force is None:
            return (await link.coordinator.status()).code != _ACCEPTING
        return True

    async def in_force(self, seen_head: str = "") -> ManifestInForce:
        """Return the manifest in force. A manifest is decoded only once.

        ``seen_head`` is the head of the log in a recent answer, or "" if unknown. If the console
        has read the manifest since the log had this head, the method sends no request: each change
        of the manifest extends the log.
        """
        link = await self.link()
        kept = self._in_force
        if kept is not None and seen_head and kept.head == seen_head:
            return kept
        # The head of an earlier answer: the log may grow while the manifest is read.
        head = link.coordinator.log_head
        found = await link.coordinator.manifest()
        if kept is None or kept.fingerprint != found.fingerprint:
            manifest = await asyncio.to_thread(decode, found.manifest)
            kept = ManifestInForce(manifest, found.fingerprint, Permissions(manifest), "")
        user = kept.permissions.find_user(link.certificate) if link.certificate else None
        self._in_force = msgspec.structs.replace(kept, user=user or "", head=head)
        return self._in_force


class Deployments:
    """The deployments of all contexts with an address and an attestation file.

    ``first`` names the context to begin with. "" means ``$KEYHOUSE_CONTEXT``, or else the context
    in use.
    """

    def __init__(self, first: str, *, read_only: bool) -> None:
        self._read_only = read_only
        self._open: dict[str, ConsoleDeployment] = {}
        self._first = first or os.environ.get("KEYHOUSE_CONTEXT", "")
        self.current = self._first

    def read(self) -> Mapping[str, SavedContext]:
        """Read the file of contexts; return those with address and attestation file, by name.

        Raises ``ContextUnusableError``.
        """
        known = read(contexts_path())
        self.current = self._first or known.current
        return {
            name: context
            for name, context in sorted(known.contexts.items())
            if context.address and context.attestation
        }

    def find(self, name: str) -> ConsoleDeployment:
        """Return the deployment of the context ``name``. Raises ``NotFoundError``."""
        context = self.read().get(name)
        if context is None:
            raise NotFoundError(
                f"there is no context {name!r}", hint="list the contexts: keyhouse context list"
            )
        kept = self._open.get(name)
        if kept is None or kept.context != context:
            kept = self._open[name] = ConsoleDeployment(name, context, read_only=self._read_only)
        return kept

    async def close(self) -> None:
        """Close the sessions with all coordinators."""
        for each in self._open.values():
            await each.close()


async def _workloads(coordinator: AsyncCoordinator) -> tuple[object, ...]:
    """Return a value that differs after a change of the page Workloads.

    ``coordinator`` answers three requests.
    """
    refusals = (await coordinator.refused_activations()).refused
    newest = refusals[0].time if refusals else ""
    joined = (await coordinator.activations()).next
    return joined, newest, sum(each.count for each in refusals), await coordinator.counters()


def _is_encrypted(key: Path) -> bool:
    try:
        return is_encrypted(key.read_bytes())
    except OSError:
        return False  # the later read reports the reason


def _has_pin(config: str) -> bool:
    try:
        return bool(read_token_file(Path(config).read_bytes(), config).pin)
    except (OSError, RefusedError):
        return True  # the later use reports the reason


def _certificate_of(user: User | None) -> bytes:
    if not isinstance(user, ClientIdentity | PemIdentity | TokenIdentity):
        return b""
    certificate = user.certificate
    pem = certificate if isinstance(certificate, bytes) else certificate.read_bytes()
    try:
        return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
    except ValueError:
        raise ClientSetupError(
            "the user's certificate cannot be read", hint="put a PEM certificate into the context"
        ) from None


def root_fingerprint(link: Link) -> str:
    """Return the SHA-256 (hex) of the root certificate of the session ``link``."""
    return hashlib.sha256(link.coordinator.trusted.root_der).hexdigest()
