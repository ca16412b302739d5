"""Warns before certificates of users and secrets expire.

An expired certificate still identifies its user. A user is the holder of an exact certificate, so
the coordinator refuses no user because of a date. But programs between user and coordinator may
refuse the expired certificate. Source: ``SECURITY.md``, "Defences".
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Final

from keyhouse.authority import expiry
from keyhouse.base.log import log
from keyhouse.base.printable import quoted
from keyhouse.coordinator.core.context import moment
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import Running

NOTICE_DAYS: Final = 30
"""The log warns this number of days before a certificate expires."""

MOST_NAMED: Final = 20
"""The log names at most this number of users and of secrets, and counts the rest."""

_DAY: Final = 24 * 3600  # seconds
_MICROSECONDS: Final = 1_000_000  # in a second


@lru_cache(maxsize=2)
def user_expiry(manifest: bytes) -> Mapping[str, int]:
    """Return the expiry of each user's certificate in seconds since 1970.

    An expiry takes 10 us to read, so the result is cached.
    """
    users = policy_of(manifest).manifest.users
    expiries = ((name, expiry(user.certificate)) for name, user in users.items())
    return MappingProxyType({name: end for name, end in expiries if end is not None})


def secret_expiry(state: Running) -> Mapping[str, int]:
    """Return the expiry of each shared or uploaded certificate in seconds since 1970."""
    definitions = policy_of(state.manifest).manifest.secrets
    certificates = (
        (name, state.secrets[name].cert)
        for name, definition in definitions.items()
        if definition.type.is_certificate and name in state.secrets
    )
    expiries = ((name, expiry(der)) for name, der in certificates)
    return {name: end for name, end in expiries if end is not None}


def warn_of_expiry(state: Running, now: int) -> None:
    """Log the certificates of users and secrets that have expired or expire soon.

    ``now`` is in microseconds since 1970.
    """
    seconds = now // _MICROSECONDS
    _warn("user", user_expiry(state.manifest), seconds)
    _warn("secret", secret_expiry(state), seconds)


def _warn(owner: str, ends: Mapping[str, int], seconds: int) -> None:
    soon = list(_ending(ends, seconds + NOTICE_DAYS * _DAY))
    for end, name in islice(soon, MOST_NAMED):
        when = "has expired" if end < seconds else "expires soon"
        event = f"the certificate of a {owner} {when}"
        expires = moment(end * _MICROSECONDS).isoformat()
        log.warning(event, **{owner: quoted(name)}, expires=expires)
    if len(soon) > MOST_NAMED:
        event = f"more certificates of {owner}s have expired or expire soon"
        log.warning(event, count=len(soon) - MOST_NAMED)


def _ending(ends: Mapping[str, int], before: int) -> Iterator[tuple[int, str]]:
    """Yield the certificates that expire before the time ``before``, earliest first.

    ``ends``: the expiry of each certificate, in seconds since 1970.
    """
    yield from sorted((end, name) for name, end in ends.items() if end < before)
