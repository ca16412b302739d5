"""What a watcher tells: new leaves of a log, and what a person should look at."""

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from keyhouse.evidence.history import History
from keyhouse.evidence.wording import is_other_code, text_of
from keyhouse.transparency import leaf as leaves
from keyhouse.transparency.leaf import Leaf


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that was noticed. ``alert``: a person should look at it."""

    host: str
    kind: str  # of the leaf, or: silence, answers, not-witnessed, withheld, witness-silent, ended
    text: str
    alert: bool = False
    index: int | None = None  # of the leaf
    claimed: str = ""  # when it was, as the coordinator claims
    why: tuple[str, ...] = ()  # of an alert


def of_leaf(
    host: str, index: int, leaf: Leaf, before: History | None, gaps: Iterable[str]
) -> Finding:
    """Return what is told of a new leaf. ``gaps``: what could not be judged about it."""
    why = [str(gap) for gap in gaps]
    if is_other_code(leaf, before):
        why.append("other code has started than before")
    if isinstance(leaf, leaves.UpdateCancelled):
        why.append("an update was cancelled")
    claimed = datetime.fromtimestamp(leaf.time / 1e6, UTC)
    return Finding(
        host=host,
        kind=leaf.__struct_config__.tag if isinstance(leaf.__struct_config__.tag, str) else "",
        text=text_of(leaf, before),
        alert=bool(why),
        index=index,
        claimed=f"{claimed:%Y-%m-%dT%H:%M:%SZ}",
        why=tuple(why),
    )
