"""An update is shown as a plan before it is sent, and sent bound to that plan."""

import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from keyhouse.base.errors import Conflicting, NotFound, Refused
from keyhouse.cli.output.bundles import Bundle
from keyhouse.cli.output.plan import plan_text
from keyhouse.cli.output.usage import WrongUsage

if TYPE_CHECKING:
    from keyhouse.client import Coordinator, PlanData

__all__ = ["Reviewed", "require_pending"]

_DIGEST: Final = re.compile("[0-9A-Fa-f]{64}")


class Reviewed(Bundle, frozen=True, kw_only=True):
    """Whether the plan was reviewed before, is confirmed now, or is not wanted."""

    expect_plan: Annotated[
        str,
        typer.Option(
            "--expect-plan",
            metavar="DIGEST",
            help="the plan that you have reviewed: refused if by now something else would happen",
        ),
    ] = ""
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="do not ask on a terminal whether to go on")
    ] = False
    no_plan: Annotated[
        bool,
        typer.Option(
            "--no-plan",
            help="neither show nor bind: for coordinators that know no plans, and plans too large",
        ),
    ] = False

    def plan(self, coordinator: "Coordinator", raw: bytes, *, quiet: bool) -> "PlanData | None":
        """Show on standard error what ``raw`` would do; return it once it is agreed to.

        ``quiet``: for programs, so it is shown only to somebody who is asked. None if no plan is
        wanted. Raises ``Refused`` if it is not the expected one, or not confirmed; and whatever
        the coordinator refuses.
        """
        if self.no_plan:
            return None
        found = _told(coordinator, raw)
        asks = not (self.expect_plan or self.yes) and sys.stdin.isatty()
        if asks or not quiet:
            sys.stderr.write(plan_text(found))
            sys.stderr.flush()
        if self.expect_plan:
            _require(found.digest, self.expect_plan.lower())
        if asks:
            _confirm()
        return found

    def check(self, beside: Iterable[Bundle]) -> None:
        """Raise ``WrongUsage`` for what is no digest, or goes with no plan."""
        del beside
        if not self.expect_plan:
            return
        if self.no_plan:
            raise WrongUsage(
                "a plan is expected and none is wanted", hint="--expect-plan, or --no-plan"
            )
        if not _DIGEST.fullmatch(self.expect_plan):
            raise WrongUsage(
                "--expect-plan is no digest of a plan",
                hint="64 hex digits, as the last line of keyhouse manifest plan has them",
            )


def require_pending(coordinator: "Coordinator", raw: bytes) -> None:
    """Raise ``NotFound`` or ``Conflicting`` unless ``raw`` is what waits for acknowledgements."""
    from keyhouse.manifest import fingerprint

    pending = coordinator.pending()
    if pending is None:
        raise NotFound("no update is pending", hint="keyhouse manifest update apply starts one")
    if pending.manifest != raw:
        raise Conflicting(
            "the manifest is not the pending one, byte for byte",
            hint=f"its fingerprint is {fingerprint(pending.manifest)};"
            " keyhouse manifest update get prints it",
        )


def _told(coordinator: "Coordinator", raw: bytes) -> "PlanData":
    from keyhouse.client import AnswerUnreadable

    try:
        return coordinator.plan(raw)
    except AnswerUnreadable as unreadable:
        raise Refused(
            f"there is no plan: {unreadable.message}",
            hint="is it older? --no-plan sends the update without one",
        ) from unreadable


def _require(digest: str, expected: str) -> None:
    if digest != expected:
        raise Conflicting(
            f"this is no longer the plan that was reviewed: the plan is now {digest}",
            hint="nothing was sent; keyhouse manifest plan prints it, review it and expect that",
        )


def _confirm() -> None:
    if not typer.confirm("go on?", default=False, err=True):
        raise Refused("not confirmed: nothing was sent", hint="--yes goes on without asking")
