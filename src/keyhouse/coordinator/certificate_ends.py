"""When the certificates of users and secrets expire. An expired one still identifies its user.

Users are identified by their exact certificate, so a coordinator refuses no user because of a date;
the programs between user and coordinator may. Source: security rules, "Who is calling".
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Final

from keyhouse.authority import expiry
from keyhouse.base.log import log
from keyhouse.base.printable import quoted
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import Running
from keyhouse.coordinator.core.timestamps import moment

NOTICE_DAYS: Final = 30
"""Days before the end of a certificate in which the log warns of it."""

TOLD: Final = 20
"""Users, and as many secrets, that the log names; of others it gives only the number."""

_DAY: Final = 24 * 3600
_MICROSECONDS: Final = 1_000_000


@lru_cache(maxsize=2)
def user_expiry(manifest: bytes) -> Mapping[str, int]:
    """Return when each user's certificate ends, in seconds since 1970. Costs 10 us for each."""
    users = policy_of(manifest).manifest.users
    found = ((name, expiry(user.certificate)) for name, user in users.items())
    return MappingProxyType({name: end for name, end in found if end is not None})


def secret_expiry(state: Running) -> Mapping[str, int]:
    """Return when each shared or uploaded certificate ends, in seconds since 1970. Same cost."""
    definitions = policy_of(state.manifest).manifest.secrets
    certificates = (
        (name, state.secrets[name].cert)
        for name, definition in definitions.items()
        if definition.type.is_certificate and name in state.secrets
    )
    found = ((name, expiry(der)) for name, der in certificates)
    return {name: end for name, end in found if end is not None}


def warn_of_expiry(state: Running, now: int) -> None:
    """Log which certificates of users and secrets have expired or end soon.

    ``now`` is in microseconds since 1970.
    """
    seconds = now // _MICROSECONDS
    _warn("user", user_expiry(state.manifest), seconds)
    _warn("secret", secret_expiry(state), seconds)


def _warn(owner: str, ends: Mapping[str, int], seconds: int) -> None:
    soon = list(_ending(ends, seconds + NOTICE_DAYS * _DAY))
    for end, name in islice(soon, TOLD):
        when = "has expired" if end < seconds else "expires soon"
        event = f"the certificate of a {owner} {when}"
        expires = moment(end * _MICROSECONDS).isoformat()
        log.warning(event, **{owner: quoted(name)}, expires=expires)
    if len(soon) > TOLD:
        event = f"more certificates of {owner}s end soon"
        log.warning(event, count=len(soon) - TOLD)


def _ending(ends: Mapping[str, int], before: int) -> Iterator[tuple[int, str]]:
    """Yield those that end before a time, the earliest first."""
    yield from sorted((end, name) for name, end in ends.items() if end < before)
