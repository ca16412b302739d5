"""When the certificates of a manifest's users end. An expired one still identifies its user.

Users are known by their exact certificate, so a coordinator lets nobody out for a date; the
programs on the way to it may. Source: security rules, "Who is calling".
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Final

import structlog

from keyhouse.authority import expiry
from keyhouse.coordinator.clock import moment
from keyhouse.coordinator.policy import policy_of
from keyhouse.wire.place import quoted

__all__ = ["NOTICE_DAYS", "TOLD", "user_expiry", "warn_of_expiry"]

log = structlog.get_logger(__name__)

NOTICE_DAYS: Final = 30
"""A certificate that ends within this many days is warned of."""

TOLD: Final = 20
"""Users who are named in the log; of others only the number is told."""

_DAY: Final = 24 * 3600
_MICROSECONDS: Final = 1_000_000


@lru_cache(maxsize=2)
def user_expiry(manifest: bytes) -> Mapping[str, int]:
    """Return when each user's certificate ends, in seconds since 1970. Costs 10 us for each."""
    users = policy_of(manifest).manifest.users
    found = ((name, expiry(user.certificate)) for name, user in users.items())
    return MappingProxyType({name: end for name, end in found if end is not None})


def warn_of_expiry(manifest: bytes, now: int) -> None:
    """Tell the log which users' certificates have expired or end soon.

    ``now`` is in microseconds since 1970.
    """
    seconds = now // _MICROSECONDS
    soon = list(_ending(user_expiry(manifest), seconds + NOTICE_DAYS * _DAY))
    for end, name in islice(soon, TOLD):
        log.warning(
            "the certificate of a user has expired"
            if end < seconds
            else "the certificate of a user expires soon",
            user=quoted(name),
            expires=moment(end * _MICROSECONDS).isoformat(),
        )
    if len(soon) > TOLD:
        log.warning("more certificates of users end soon", count=len(soon) - TOLD)


def _ending(ends: Mapping[str, int], before: int) -> Iterator[tuple[int, str]]:
    """Yield those that end before a time, the earliest first."""
    yield from sorted((end, name) for name, end in ends.items() if end < before)
