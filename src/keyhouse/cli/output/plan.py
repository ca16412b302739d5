"""How a plan looks to the person who has to agree to it."""

import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from keyhouse.base.printable import printable

if TYPE_CHECKING:
    from keyhouse.client import PlanData

__all__ = ["plan_text"]

_WIDTH: Final = 100


def plan_text(found: "PlanData") -> str:
    """Return the lines that tell a plan, each ended; the last one is its digest."""
    return "".join(f"{line}\n" for line in _lines(found))


def _lines(found: "PlanData") -> Iterator[str]:
    plan = found.plan
    if plan.changes:
        yield "this update changes:"
        yield from _items(each.text for each in plan.changes)
    else:
        yield "this update changes nothing that the manifest in force does not say already"
    yield "and, as every such update does:"
    yield from _items(each.text for each in plan.renewals)
    if plan.kept:
        yield from _wrapped("secrets that stay: ", ", ".join(plan.kept))
    if found.not_uploaded:
        yield from _wrapped("of these not uploaded yet: ", ", ".join(found.not_uploaded))
    for note in found.notes:
        yield from _wrapped("note: ", note)
    for warning in found.warnings:
        yield from _wrapped("warning: ", str(warning))
    yield from _wrapped("agreement: ", _agreement(found))
    yield f"plan: {found.digest}"


def _items(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from _wrapped("  - ", text, "    ")


def _wrapped(head: str, text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(
        printable(text),
        _WIDTH,
        initial_indent=head,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _agreement(found: "PlanData") -> str:
    plan = found.plan
    if not plan.needed:
        return "nobody else has to agree"
    text = f"{plan.needed} of {', '.join(plan.users)}"
    if found.acknowledged:
        text += f"; {', '.join(found.acknowledged)} agreed already"
    return text
