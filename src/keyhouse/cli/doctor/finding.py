"""The result of a check of `keyhouse doctor`, and the limits for dates, clocks and modes."""

from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

from keyhouse.base.errors import KeyhouseError

_SOON: Final = timedelta(days=30)  # chosen: time for an update that several people approve
# Chosen: a clock with time synchronisation differs by less than a second.
_SLOW_CLOCK: Final = timedelta(seconds=5)
# Chosen: certificates that are valid from now on fail with such a clock.
_WRONG_CLOCK: Final = timedelta(minutes=1)
_OTHERS: Final = 0o077  # mode bits: group and others


class CheckResult(msgspec.Struct, frozen=True):
    """The result of a check. ``found`` is a text about the result, and ``fix`` the next step.

    The level ``problem`` means that something does not work. ``warning``: something will or may
    fail. ``skipped``: the check was not possible.
    """

    check: str
    level: Literal["ok", "warning", "problem", "skipped"]
    found: str
    fix: str = ""


def failed(check: str, error: KeyhouseError) -> CheckResult:
    """Return a problem with the text and the hint of ``error``; ``check`` names the check."""
    return CheckResult(check, "problem", error.message, error.hint)


def check_expiry(check: str, not_after: datetime, now: datetime, fix: str) -> CheckResult:
    """Return the result about the end ``not_after`` of a certificate's validity.

    A past end is a problem, and an end within 30 days a warning. ``check`` is the name of the
    check, and ``fix`` the next step for the user.
    """
    day = not_after.strftime("%Y-%m-%d")
    if not_after <= now:
        return CheckResult(check, "problem", f"expired on {day}", fix)
    if not_after - now < _SOON:
        return CheckResult(check, "warning", f"expires on {day}", fix)
    return CheckResult(check, "ok", f"valid until {day}")


def check_start(check: str, not_before: datetime, now: datetime) -> CheckResult | None:
    """Return a problem if a certificate's validity begins after ``now``; None otherwise.

    The reason for such a certificate may be a wrong clock. ``check`` is the name of the check.
    """
    if not_before <= now:
        return None
    when = not_before.strftime("%Y-%m-%dT%H:%M:%SZ")
    fix = "check the clock of this machine, and the clock of the certificate's issuer"
    return CheckResult(check, "problem", f"is valid from {when}, which is in the future", fix)


def check_clock(check: str, ours: datetime, theirs: datetime, whose: str) -> CheckResult:
    """Return the result of comparing this machine's clock with the clock of a server.

    ``ours`` is the time of this machine, and ``theirs`` the time of the server. ``whose`` names the
    server in the text. ``check`` is the name of the check.
    """
    seconds = abs(ours - theirs)
    words = f"{seconds.total_seconds():.0f} s {'ahead of' if ours > theirs else 'behind'} {whose}"
    if seconds > _WRONG_CLOCK:
        return CheckResult(
            check, "problem", words, "synchronise the clock by NTP: checks of quotes are wrong"
        )
    if seconds > _SLOW_CLOCK:
        return CheckResult(check, "warning", words, "synchronise the clock by NTP")
    return CheckResult(check, "ok", f"agrees with {whose}")


def check_mode(check: str, mode: int, *, mine: bool) -> CheckResult:
    """Return the result about access of other users to a file.

    ``mode`` has the permission bits of the file. ``mine``: the file belongs to the user of this
    process. ``check`` is the name of the check.
    """
    shown = f"{mode & 0o7777:04o}"
    if not mine:
        return CheckResult(check, "warning", "belongs to another user", "use a file of your own")
    if mode & _OTHERS:
        return CheckResult(check, "problem", f"other users may open it ({shown})", "chmod 600 FILE")
    return CheckResult(check, "ok", f"only its owner may open it ({shown})")
