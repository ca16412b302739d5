"""Read the objects beside the log of a state."""

from keyhouse.coordinator.core.state import Running
from keyhouse.journal import StateStorage, log_name


async def read_log_object(storage: StateStorage, state: Running, name: str) -> bytes | None:
    """Return an object beside the log of ``state`` in ``storage``; None if it is missing.

    Raises ``UnavailableError``.
    """
    if state.public_log is None:
        return None
    return await storage.log_parts(log_name(state.public_log.verifier)).object(name)
