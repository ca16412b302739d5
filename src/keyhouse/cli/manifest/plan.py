"""The plan of an update: `keyhouse manifest plan`, and its review before an update.

The coordinator computes the effects of an update, and a digest of these effects. A user reviews the
plan, and sends the digest with the update. The coordinator refuses the update if the effects have
changed since the review.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Final, TextIO

import click

from keyhouse.base.errors import ConflictError, NotFoundError, RefusedError
from keyhouse.cli.manifest.change_lines import danger_lines, section_lines, width_for, wrapped
from keyhouse.cli.manifest.file import FileArgument, open_manifest
from keyhouse.cli.options.connect import coordinator_of
from keyhouse.cli.options.target import Target
from keyhouse.cli.options.user import UserOption
from keyhouse.cli.output.progress_bar import long_work
from keyhouse.cli.output.show import coloured, show_json
from keyhouse.cli.parser import AsJson, Option, OptionGroup, WrongUsageError, command
from keyhouse.manifest import fingerprint
from keyhouse.views.plan import agreement, danger_texts, harmless, signed, summary
from keyhouse.views.visible import listed

if TYPE_CHECKING:
    from keyhouse.client import Coordinator, Pending, PlanData

_DIGEST: Final = re.compile("[0-9A-Fa-f]{64}")


@command
def plan(
    file: FileArgument,
    target: Target,
    user: UserOption,
    *,
    as_json: AsJson = False,
) -> None:
    """Print the effects of an update, without a change.

    The coordinator answers only users who may make the update.

    Example: keyhouse manifest plan new.json localhost:4433 --cert alice.crt --key alice.key
    --attestation attestation.json --simulation-root root.pem

    The last line is the digest of the plan. All reviewers get the same digest, until the effects of
    the update change. With --expect-plan DIGEST, keyhouse manifest update apply and acknowledge
    require this plan.
    """
    source = open_manifest(str(file))
    with (
        source.explained(),
        coordinator_of(target, user) as coordinator,
        _request_progress(quiet=as_json),
    ):
        data = coordinator.plan(source.raw)
    if as_json:
        show_json(data)
    else:
        sys.stdout.write(plan_text(data, sys.stdout))


class ReviewOptions(OptionGroup, frozen=True, kw_only=True):
    """The options for the review of a plan: it happened before, happens now, or is omitted."""

    expect_plan: Annotated[
        str,
        Option(
            "--expect-plan",
            metavar="DIGEST",
            help="digest of the reviewed plan: the coordinator refuses the update if its"
            " effects have changed",
        ),
    ] = ""
    yes: Annotated[
        bool,
        Option(
            "--yes",
            "-y",
            help="apply the changes without a question; without a terminal, --yes or"
            " --expect-plan is required",
        ),
    ] = False
    no_plan: Annotated[
        bool,
        Option(
            "--no-plan",
            help="show no plan, and send no digest: for coordinators without plans, and for too"
            " large plans",
        ),
    ] = False

    def plan(self, coordinator: "Coordinator", raw: bytes, *, quiet: bool) -> "PlanData | None":
        """Show the plan of the update ``raw`` on standard error; return the confirmed plan.

        ``coordinator`` computes the plan. With ``quiet``, the plan is shown only if the user has to
        confirm the plan. The result is None with ``--no-plan``. Raises ``ConflictError`` if the
        digest of the plan differs from ``--expect-plan``, ``RefusedError`` without a confirmation,
        and the coordinator's refusals.
        """
        if self.no_plan:
            return None
        data = _request_plan(coordinator, raw, quiet=quiet)
        asks = not (self.expect_plan or self.yes)
        if asks or not quiet:
            sys.stderr.write(plan_text(data, sys.stderr))
            sys.stderr.flush()
        if self.expect_plan:
            _require_expected(data.digest, self.expect_plan.lower())
        if asks:
            _confirm()
        return data

    def require_terminal(self) -> None:
        """Raise ``WrongUsageError`` if the user has to confirm the plan, but has no terminal."""
        if not (self.expect_plan or self.yes or self.no_plan or sys.stdin.isatty()):
            raise WrongUsageError(
                "you cannot confirm the plan of the update: standard input is not a terminal",
                hint="pass --expect-plan DIGEST with a reviewed plan, or --yes",
            )

    def check(self, beside: Iterable[OptionGroup]) -> None:
        """Raise ``WrongUsageError`` for contradicting options and for an invalid digest.

        ``beside``, the option groups of the command, has no effect.
        """
        del beside
        if not self.expect_plan:
            return
        if self.no_plan:
            raise WrongUsageError("--expect-plan contradicts --no-plan", hint="omit one of the two")
        if not _DIGEST.fullmatch(self.expect_plan):
            raise WrongUsageError(
                f"--expect-plan {self.expect_plan!r} is not the digest of a plan",
                hint="pass the 64 hex digits in the last line of keyhouse manifest plan",
            )


def pending_update(coordinator: "Coordinator") -> "Pending":
    """Return the pending update of ``coordinator``. Raises ``NotFoundError`` without an update."""
    pending = coordinator.pending()
    if pending is None:
        raise NotFoundError(
            "no update is pending", hint="start an update: keyhouse manifest update apply"
        )
    return pending


def require_pending(coordinator: "Coordinator", raw: bytes) -> None:
    """Raise ``NotFoundError`` or ``ConflictError`` unless ``raw`` is the pending manifest."""
    pending = pending_update(coordinator)
    if pending.manifest != raw:
        raise ConflictError(
            f"the manifest {fingerprint(raw)} differs from the pending manifest"
            f" {fingerprint(pending.manifest)}",
            hint="compare the bytes with the output of keyhouse manifest update get",
        )


def plan_text(data: "PlanData", stream: TextIO) -> str:
    """Return the plan ``data`` as lines of text; the last line is the plan's digest.

    ``stream``, the destination of the text, decides about colours and width.
    """
    lines = _lines(data, colour=coloured(stream), width=width_for(stream))
    return "".join(f"{line}\n" for line in lines)


def _lines(data: "PlanData", *, colour: bool, width: int) -> Iterator[str]:
    plan = data.plan
    if plan.changes:
        yield "this update changes:"
        yield from section_lines(map(signed, harmless(plan)), colour=colour, width=width)
    else:
        yield "this update changes nothing in the manifest in force"
    yield "every update of this kind also changes:"
    yield from section_lines(map(signed, plan.renewals), colour=colour, width=width)
    yield f"summary: {summary(plan.changes)}"
    if plan.kept:
        yield f"unchanged secrets: {len(plan.kept)}"
    if data.not_uploaded:
        yield from wrapped("of these, not uploaded yet: ", listed(data.not_uploaded), width=width)
    for note in data.notes:
        yield from wrapped("note: ", note, width=width)
    for warning in data.warnings:
        yield from wrapped("warning: ", str(warning), width=width)
    yield from wrapped("agreement: ", agreement(data), width=width)
    yield from danger_lines(danger_texts(plan), colour=colour, width=width)
    yield f"plan: {data.digest}"


def _request_progress(*, quiet: bool) -> AbstractContextManager[None]:
    return long_work("requesting the plan", quiet=quiet, at_once=False)


def _request_plan(coordinator: "Coordinator", raw: bytes, *, quiet: bool) -> "PlanData":
    from keyhouse.client import AnswerUnreadableError

    try:
        with _request_progress(quiet=quiet):
            return coordinator.plan(raw)
    except AnswerUnreadableError as unreadable:
        raise RefusedError(
            f"the coordinator returned no plan: {unreadable.message}",
            hint="pass --no-plan to send the update without a plan; the coordinator may have an"
            " older version",
        ) from unreadable


def _require_expected(digest: str, expected: str) -> None:
    if digest != expected:
        raise ConflictError(
            f"the plan has changed since the review: its digest is now {digest}",
            hint="review the new plan with keyhouse manifest plan, then pass its digest; this"
            " command sent nothing",
        )


def _confirm() -> None:
    if not click.confirm("Apply these changes?", default=False, err=True):
        raise RefusedError(
            "the update is not confirmed: nothing was sent",
            hint="answer y to confirm the plan, or pass --yes to skip the question",
        )
