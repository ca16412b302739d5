"""Make the entries of a start for the line of the root, and collect the proofs for a new log."""

from collections.abc import Sequence

from keyhouse.base.errors import UnavailableError
from keyhouse.base.log import log
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.events import Event, LineExtended, LogBegun
from keyhouse.coordinator.core.line import line_of
from keyhouse.coordinator.core.state import Running
from keyhouse.coordinator.engine.writer import JournalWriter
from keyhouse.coordinator.origin.checks import Origin


async def start_line_events(
    origin: Origin | None,
    state: Running,
    context: Context,
    begun: LogBegun | None,
    holders: Sequence[str] = (),
) -> tuple[Event, ...]:
    """Return the event that extends the line of the proven ``state``; no event without entries.

    The line of an adopted state without a line begins here. The exception is a store that
    coordinators of older versions may share: they would stop at this event (``Engine.begin_line``).
    """
    if origin is None:
        return ()
    replaced = begun is not None and state.public_log is not None
    new_log = begun.verifier.partition("+")[0] if begun is not None and replaced else ""
    try:
        if origin.needs_adoption(state):
            items = (
                () if context.shares_store else await origin.adoption_entries(state, context.now)
            )
        else:
            items = await origin.start_entries(state, context.now, holders=holders, new_log=new_log)
    except UnavailableError as error:
        log.warning("this start is not in the line of the root", reason=error.message)
        return ()
    return (LineExtended(items),) if items else ()


async def line_objects(state: Running, writer: JournalWriter) -> list[bytes]:
    """Return the objects that prove the line of ``state``, as far as they are readable.

    Manifests are included: a manifest may admit the code of a later entry. A manifest that gave a
    secret its first value is not an object. So a missing manifest does not count as lost.
    """
    found: list[bytes] = []
    line = line_of(state)
    manifests = set(() if line is None else line.manifests)
    proofs = [each for item in state.line for each in (item.quote, item.collateral) if each]
    for name in dict.fromkeys((*proofs, *sorted(manifests))):
        try:
            raw = await writer.read_object(state, name)
        except UnavailableError:
            raw = None
        if raw is None and name not in manifests:
            log.error("an object that proves the line of the root is lost", name=name)
        elif raw is not None:
            found.append(raw)
    return found
