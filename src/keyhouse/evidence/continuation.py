"""A log in place of another log: the new log begins at the end of the old log.

``--begin-new-log`` abandons a log whose newest state is lost. The first leaf of the new log names
the coordinator's last known state of the old log. Only the coordinator vouches for this leaf. An
auditor with the evidence of both logs can verify the leaf:

1. Both logs have the same root certificate (``verify`` compares them) and different names.
2. The leaf names the origin, the size and the root of the old log's last checkpoint. So the old
   evidence has exactly as many leaves. Further leaves would be changes that the new log omits.
3. The manifest, the intermediate and the platform in the leaf are those at the end of the old log.
4. The new log continues the state at the end of the old log: raised versions, a pending update and
   its acknowledgements, the place in the journal, and the instances of all starts.
"""

from typing import NamedTuple

from msgspec.structs import replace

from keyhouse.base.printable import quoted
from keyhouse.evidence.errors import HistoryRefusedError
from keyhouse.evidence.gaps import Gap
from keyhouse.evidence.history import History, HistoryStep
from keyhouse.transparency.leaf import LogBegunLeaf
from keyhouse.transparency.note import Checkpoint


class LogEnd(NamedTuple):
    """The end of a verified log.

    ``instances`` are the ids of all started processes, also of those in earlier logs.
    """

    checkpoint: Checkpoint
    history: History
    instances: frozenset[str]


def continue_from(end: LogEnd, leaf: LogBegunLeaf, first: HistoryStep) -> HistoryStep:
    """Return the step after a log's first ``leaf``, with the state at the end of the replaced log.

    ``first`` is this step without the state of the replaced log, and ``end`` the end of the
    replaced log. Raises ``HistoryRefusedError`` unless ``leaf`` names exactly this end, and states
    the same manifest, intermediate and platform.
    """
    _require_named(end.checkpoint, leaf)
    old, new = end.history, first.history
    stated = {
        "manifest": (new.manifest, old.manifest),
        "intermediate certificate": (new.intermediate, old.intermediate),
        "platform": (new.platform, old.platform),
    }
    for name, (here, there) in stated.items():
        if here and there and here != there:
            raise HistoryRefusedError(
                f"the log begins with the {name} {here}; the previous log ends with {there}"
            )
    if leaf.time < old.time:
        raise HistoryRefusedError(
            f"the claimed time {leaf.time} is before {old.time}, the last time of the previous log"
        )
    history = replace(
        old,
        identity=new.identity,
        size=new.size,
        time=new.time,
        manifest=old.manifest or new.manifest,
        intermediate=old.intermediate or new.intermediate,
        decided=new.decided,
        portion=new.portion,
        changes_roots=new.changes_roots,
    )
    gaps = tuple(gap for gap in first.gaps if gap is not Gap.REPLACES_LOG)
    return first._replace(history=history, gaps=gaps)


def _require_named(old: Checkpoint, leaf: LogBegunLeaf) -> None:
    named = leaf.previous
    if named is None:
        raise HistoryRefusedError("the log does not replace another log")
    if named.origin != old.origin or leaf.origin == old.origin:
        raise HistoryRefusedError(
            f"the log {quoted(leaf.origin)} replaces {quoted(named.origin)}; the file of --before"
            f" has the log {quoted(old.origin)}"
        )
    if named.size != old.size:
        raise HistoryRefusedError(
            f"the log replaces {named.size} entries of the previous log; the file of --before has"
            f" {old.size}",
            hint=(
                "do not rely on the new log: it omits the last entries of the file of --before"
                if named.size < old.size
                else "request the last evidence file of the previous log"
            ),
        )
    if named.root != old.root.hex():
        raise HistoryRefusedError(
            f"the log replaces {named.size} entries with another root than the file of --before"
        )
