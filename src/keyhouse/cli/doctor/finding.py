"""The result of one check of `keyhouse doctor`, and the limits for dates, clocks and modes."""

from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

from keyhouse.base.errors import KeyhouseError

_SOON: Final = timedelta(days=30)
_SLOW_CLOCK: Final = timedelta(seconds=5)
_WRONG_CLOCK: Final = timedelta(minutes=1)
_OTHERS: Final = 0o077


class Finding(msgspec.Struct, frozen=True):
    """``problem`` stops something from working, ``warning`` will or may, ``skipped`` is unknown."""

    check: str
    level: Literal["ok", "warning", "problem", "skipped"]
    found: str
    fix: str = ""


def failed(check: str, error: KeyhouseError) -> Finding:
    """Return ``error`` as a problem."""
    return Finding(check, "problem", error.message, error.hint)


def check_expiry(check: str, not_after: datetime, now: datetime, fix: str) -> Finding:
    """Return whether a certificate has expired, or does so within 30 days."""
    day = not_after.strftime("%Y-%m-%d")
    if not_after <= now:
        return Finding(check, "problem", f"expired on {day}", fix)
    if not_after - now < _SOON:
        return Finding(check, "warning", f"expires on {day}", fix)
    return Finding(check, "ok", f"good until {day}")


def check_start(check: str, not_before: datetime, now: datetime) -> Finding | None:
    """Return a problem if a certificate is not valid yet: then some clock is wrong."""
    if not_before <= now:
        return None
    when = not_before.strftime("%Y-%m-%dT%H:%M:%SZ")
    fix = "set the clock of this machine, or find out who made it with a wrong one"
    return Finding(check, "problem", f"is good from {when} only, which is to come", fix)


def check_clock(check: str, ours: datetime, theirs: datetime, whose: str) -> Finding:
    """Return how far this machine's clock is from another one."""
    seconds = abs(ours - theirs)
    words = f"{seconds.total_seconds():.0f} s {'ahead of' if ours > theirs else 'behind'} {whose}"
    if seconds > _WRONG_CLOCK:
        return Finding(check, "problem", words, "let NTP set the clock: quotes would be misjudged")
    if seconds > _SLOW_CLOCK:
        return Finding(check, "warning", words, "let NTP set the clock")
    return Finding(check, "ok", f"agrees with {whose}")


def check_mode(check: str, mode: int, *, mine: bool) -> Finding:
    """Return whether others may open a file with a secret; ``mode``: its permission bits."""
    shown = f"{mode & 0o7777:04o}"
    if not mine:
        return Finding(check, "warning", "belongs to another user", "keep keys of your own")
    if mode & _OTHERS:
        return Finding(check, "problem", f"others may open it ({shown})", "chmod 600 it")
    return Finding(check, "ok", f"only its owner may open it ({shown})")
