"""What one check of `keyhouse doctor` found, and how numbers and dates are judged."""

from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

from keyhouse.base.errors import KeyhouseError

__all__ = ["Finding", "failed", "judge_clock", "judge_expiry", "judge_mode", "judge_start"]

_SOON: Final = timedelta(days=30)
_SLOW_CLOCK: Final = timedelta(seconds=5)
_WRONG_CLOCK: Final = timedelta(minutes=1)
_OTHERS: Final = 0o077


class Finding(msgspec.Struct, frozen=True):
    """``problem`` stops something from working, ``warning`` will or may, ``skipped`` is unknown."""

    check: str
    level: Literal["ok", "warning", "problem", "skipped"]
    found: str
    mend: str = ""


def failed(check: str, error: KeyhouseError) -> Finding:
    """Return what an error that was raised on purpose says."""
    return Finding(check, "problem", error.message, error.hint)


def judge_expiry(check: str, not_after: datetime, now: datetime, mend: str) -> Finding:
    """Judge a certificate's end."""
    day = not_after.strftime("%Y-%m-%d")
    if not_after <= now:
        return Finding(check, "problem", f"expired on {day}", mend)
    if not_after - now < _SOON:
        return Finding(check, "warning", f"expires on {day}", mend)
    return Finding(check, "ok", f"good until {day}")


def judge_start(check: str, not_before: datetime, now: datetime) -> Finding | None:
    """Judge a certificate's beginning: one in the future shows that a clock is wrong."""
    if not_before <= now:
        return None
    when = not_before.strftime("%Y-%m-%dT%H:%M:%SZ")
    mend = "set the clock of this machine, or find out who made it with a wrong one"
    return Finding(check, "problem", f"is good from {when} only, which is to come", mend)


def judge_clock(check: str, ours: datetime, theirs: datetime, whose: str) -> Finding:
    """Judge this machine's clock by another."""
    seconds = abs(ours - theirs)
    words = f"{seconds.total_seconds():.0f} s {'ahead of' if ours > theirs else 'behind'} {whose}"
    if seconds > _WRONG_CLOCK:
        return Finding(check, "problem", words, "let NTP set the clock: quotes would be misjudged")
    if seconds > _SLOW_CLOCK:
        return Finding(check, "warning", words, "let NTP set the clock")
    return Finding(check, "ok", f"agrees with {whose}")


def judge_mode(check: str, mode: int, *, mine: bool) -> Finding:
    """Judge who may open a file with a secret in it; ``mode`` is its permission bits."""
    shown = f"{mode & 0o7777:04o}"
    if not mine:
        return Finding(check, "warning", "belongs to another user", "keep keys of your own")
    if mode & _OTHERS:
        return Finding(check, "problem", f"others may open it ({shown})", "chmod 600 it")
    return Finding(check, "ok", f"only its owner may open it ({shown})")
