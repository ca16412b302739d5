"""The lineages of workloads: the key that may renew a certificate, and the effect of a revocation.

A certificate and its key can be copied. A host can start an old copy of the coordinator, which
activates any workload of its old manifest. So a certificate alone proves too little. Each
activation of a renewable type begins a lineage in the journal. A renewal replaces the key of the
lineage. Only the newest key reads secrets, and only in the state that knows the lineage:

- A certificate from an old copy has a lineage that this state does not know.
- A thief's copy of a key ends with the next renewal of the workload. If the thief renews first, the
  workload itself is superseded, and its owner notices.
- A revocation marks the lineages that began before it in the journal. No clock decides.
- A state from a backup does not know later keys. Only the operator can declare the restoration,
  with ``--begin-new-log``. The measurement of the coordinator includes this flag, and the first
  leaf of the new log shows it. Then each lineage may continue once with a key unknown to the state,
  with evidence.

The key in the handshake proves the lineage, because the journal has its hash. So a renewal needs no
signature of a former marble root, and works after any number of updates. The renewal needs fresh
evidence under the rules in force.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from immutables import Map
from msgspec.structs import replace

from keyhouse.base.errors import (
    ConflictError,
    ForbiddenError,
    UnauthenticatedError,
    UnavailableError,
)
from keyhouse.base.printable import quoted
from keyhouse.coordinator.core import events
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import (
    FormerRoot,
    Lineage,
    PlatformRevocation,
    Running,
    Standing,
)
from keyhouse.manifest import Renewal

GRACE: Final = 24 * 3600 * 1_000_000
"""Microseconds after the end of a certificate, in which its lineage can still continue."""

MOST: Final = 100_000
"""Maximum of lineages. A lineage has about 200 bytes in memory."""

MOST_FORMER: Final = 4
"""Maximum of former marble roots that workloads trust at a time. Each is a part of many files."""

MOST_PLATFORMS: Final = 1000
"""Maximum of revoked platforms. The decision compares each activation with all of them."""

INLINE: Final = 2000
"""Maximum of lineages that the event loop walks at once: 3 ms. 100,000 take up to 0.2 seconds."""

_CLEANED: Final = 4096
"""The coordinator drops ended lineages at each multiple of this number, and above ``MOST``.

A lineage has ended if its newest certificate ended more than ``GRACE`` ago.
"""

_Lineages = Map[bytes, Lineage]


class LineagesFullError(UnavailableError):
    """The state has the maximum of lineages (``MOST``)."""

    def __init__(self) -> None:
        super().__init__(
            f"the state has the maximum of {MOST} running workloads that renew certificates",
            hint="try again later: a workload is dropped a day after its last certificate ends",
        )


class NotEnabledError(ConflictError):
    """The manifest does not let workloads of this type renew."""

    code = "not-enabled"


class RenewFirstError(ConflictError):
    """The certificate may not read secrets before its renewal."""

    code = "renew-first"


class ActivateAgainError(UnauthenticatedError):
    """This state does not contain the activation of the certificate."""

    code = "activate-again"


class RevokedError(ForbiddenError):
    """A user has revoked the workload."""

    code = "revoked"


class LineageSupersededError(ForbiddenError):
    """Another key has already renewed the certificate of the activation."""

    code = "superseded"


def renewal_of(state: Running, marble_type: str) -> Renewal:
    """Return the rules for renewals of ``marble_type``. Raises ``NotEnabledError``."""
    marble = policy_of(state.manifest).manifest.marbles.get(marble_type)
    if marble is None or marble.renewal is None:
        raise NotEnabledError(
            f"marble type {quoted(marble_type)} has no Renewal in the manifest",
            hint="add Renewal to the type with an update; until then, start the workload again"
            " before its certificate ends",
        )
    return marble.renewal


def lineage_of(state: Running, name: bytes, now: int) -> Lineage:
    """Return the lineage with the id ``name``. ``now``: microseconds since 1970.

    Raises ``ActivateAgainError`` or ``RevokedError``.
    """
    lineage = state.lineages.get(name)
    if lineage is None or now > lineage.end + GRACE:
        raise ActivateAgainError(
            "this state does not contain the activation of the certificate",
            hint="activate the workload again",
        )
    if lineage.standing == Standing.REVOKED:
        raise RevokedError(
            f"the workload {lineage.uuid} of type {quoted(lineage.marble_type)} is revoked",
            hint="read the user and the reason with keyhouse workload revocations; then activate"
            " the workload again",
        )
    return lineage


def require_renewable(lineage: Lineage, presented: bytes, key: bytes) -> None:
    """Verify that ``key`` may replace ``presented`` in ``lineage``. Both are hashes of keys.

    The newest key may be replaced. The key before the newest may repeat its own renewal, because
    the answer may have been lost. Raises ``LineageSupersededError``.
    """
    repeats = presented == lineage.before and key == lineage.key
    if presented != lineage.key and not repeats:
        raise LineageSupersededError(
            "another key has already renewed the certificate of this activation",
            hint="find out whether two copies of the workload run, or its key was stolen",
        )


def require_continuable(lineage: Lineage, presented: bytes, key: bytes) -> None:
    """Verify that a renewal with fresh evidence may replace ``presented`` by ``key``.

    Both are hashes of keys. After the restoration of a backup, any key of ``lineage`` may be
    replaced once: the renewal ends this permission. Raises as ``require_renewable``.
    """
    if lineage.standing != Standing.RESTORED:
        require_renewable(lineage, presented, key)


def require_unrevoked(lineage: Lineage, presented: bytes) -> None:
    """Verify that the key with the hash ``presented`` identifies the workload of ``lineage``.

    Raises ``LineageSupersededError``, or ``RenewFirstError`` after a revocation of the type or a
    restoration.
    """
    require_continuable(lineage, presented, b"")
    if lineage.standing in {Standing.RENEW, Standing.RESTORED}:
        raise _renew_first()


def require_newest(lineage: Lineage, presented: bytes) -> None:
    """Verify that the key with the hash ``presented`` may read secrets for ``lineage``.

    Raises as ``require_unrevoked``, and ``RenewFirstError`` for the key of an activation. The
    coordinator made this key, and the program received the key in an environment variable.
    """
    require_unrevoked(lineage, presented)
    if not lineage.before:
        raise _renew_first()


def _renew_first() -> RenewFirstError:
    return RenewFirstError(
        "the workload may not use its certificate before its renewal",
        hint="renew the certificate with a new quote",
    )


def require_platform(state: Running, platform: bytes) -> None:
    """Verify that no user has revoked ``platform``. Raises ``RevokedError``."""
    if any(each.platform == platform for each in state.revoked_platforms):
        raise RevokedError(
            f"the platform {platform.hex()} is revoked", hint="run the workload on another machine"
        )


def require_room(state: Running, now: int) -> None:
    """Raise ``LineagesFullError`` if the state has the maximum of lineages.

    A lineage does not count if its newest certificate ended more than ``GRACE`` before ``now``: the
    next activation drops this lineage.
    """
    if len(state.lineages) >= MOST and len(cleaned(state.lineages, now)) >= MOST:
        raise LineagesFullError


def former_roots(state: Running, hours: int, now: int) -> tuple[FormerRoot, ...]:
    """Return the former marble roots after an update, with the present root as the newest.

    ``hours``: workloads trust the present root for this time after ``now``. Raises
    ``ConflictError`` if too many roots would be trusted.
    """
    until = now + hours * 3600 * 1_000_000
    kept = [replace(each, until=min(each.until, until)) for each in trusted_roots(state, now)]
    roots = (*kept, FormerRoot(state.keys.marble_root_cert, until))
    if len(roots) > MOST_FORMER:
        raise ConflictError(
            f"workloads would trust {len(roots)} former marble roots; at most {MOST_FORMER} are"
            " possible",
            hint="wait until the trust in the oldest root has ended, or set"
            " Config.Trust.OverlapHours to 0",
        )
    return roots


def trusted_roots(state: Running, now: int) -> tuple[FormerRoot, ...]:
    """Return the former marble roots that workloads still trust at ``now``, oldest first."""
    return tuple(each for each in state.former_roots if now < each.until)


def with_activated(
    lineages: _Lineages, activated: events.Activated, begun: events.LineageBegun
) -> _Lineages:
    """Return ``lineages`` with ``begun``, the lineage of the activation ``activated``."""
    lineage = Lineage(
        marble_type=activated.marble_type,
        uuid=activated.uuid,
        platform=activated.platform,
        key=begun.key,
        end=begun.end,
    )
    grown = lineages.set(begun.id, lineage)
    return cleaned(grown, activated.time) if is_cleaning_due(len(lineages), 1) else grown


def is_cleaning_due(count: int, added: int) -> bool:
    """Return whether the activations of ``added`` workloads walk all of ``count`` lineages."""
    grown = count + added
    return grown > MOST or grown // _CLEANED > count // _CLEANED


def with_renewed(lineages: _Lineages, renewed: events.Renewed) -> _Lineages:
    """Return ``lineages`` with the new key of the renewal ``renewed``.

    The renewal ends the effect of a revocation of the type, or of a restoration.
    """
    lineage = lineages.get(renewed.lineage)
    if lineage is None:
        return lineages
    # Otherwise this is the repetition of a lost answer, or a new certificate for the same key.
    replaces = renewed.presented == lineage.key != renewed.key
    if lineage.standing == Standing.RESTORED and renewed.presented != renewed.key:
        replaces = True
    following = replace(
        lineage,
        platform=renewed.platform,
        key=renewed.key,
        before=renewed.presented if replaces else lineage.before,
        end=renewed.end,
        standing="",
    )
    return lineages.set(renewed.lineage, following)


def with_restored(lineages: _Lineages, now: int) -> _Lineages:
    """Return ``lineages`` after the operator has stated that the state is from a backup.

    ``now``: the time of this statement, in microseconds since 1970. Certificates later than the
    backup may exist. So each lineage remains in the state for at least ``GRACE``.
    """
    marked = lineages.mutate()
    for name, lineage in lineages.items():
        if lineage.standing != Standing.REVOKED:
            end, standing = max(lineage.end, now), Standing.RESTORED.value
            marked[name] = replace(lineage, end=end, standing=standing)
    return marked.finish()


def with_revoked(state: Running, revoked: events.WorkloadsRevoked) -> Running:
    """Return ``state`` after the revocation of a workload, a marble type or a platform.

    Lineages of a revoked type read no secrets before their next renewal. Lineages of a revoked
    workload or platform end. The state lists the revoked platforms, and later activations on them
    are refused.
    """
    standing = Standing.RENEW if revoked.scope is events.Scope.TYPE else Standing.REVOKED
    marked = state.lineages.mutate()
    for name, lineage in state.lineages.items():
        if is_revoked(lineage, revoked) and lineage.standing != Standing.REVOKED:
            marked[name] = replace(lineage, standing=standing)
    platforms = state.revoked_platforms
    if revoked.platform:
        platforms = (*platforms, PlatformRevocation(revoked.platform, revoked.time, revoked.user))
    return replace(state, lineages=marked.finish(), revoked_platforms=platforms)


class Revocation(Protocol):
    """The workload, marble type or platform that a command or an event revokes."""

    @property
    def scope(self) -> events.Scope:
        """The extent of the revocation: a workload, a marble type or a platform."""
        ...

    @property
    def marble_type(self) -> str:
        """The revoked marble type, or the type of the revoked workload; else empty."""
        ...

    @property
    def uuid(self) -> str:
        """The UUID of the revoked workload; else empty."""
        ...

    @property
    def platform(self) -> bytes:
        """The id of the revoked platform; else empty."""
        ...


def is_revoked(lineage: Lineage, revoked: Revocation) -> bool:
    """Return whether the revocation ``revoked`` concerns the workload of ``lineage``."""
    match revoked.scope:
        case events.Scope.PLATFORM:
            return lineage.platform == revoked.platform
        case events.Scope.TYPE:
            return lineage.marble_type == revoked.marble_type
        case events.Scope.WORKLOAD:
            return (lineage.marble_type, lineage.uuid) == (revoked.marble_type, revoked.uuid)


def cleaned(lineages: _Lineages, now: int) -> _Lineages:
    """Return the ``lineages`` whose newest certificate ended at most ``GRACE`` before ``now``."""
    return _filtered(lineages, lambda each: now <= each.end + GRACE)


def _filtered(lineages: _Lineages, keep: Callable[[Lineage], bool]) -> _Lineages:
    left: Iterable[tuple[bytes, Lineage]] = lineages.items()
    return Map({name: lineage for name, lineage in left if keep(lineage)})
