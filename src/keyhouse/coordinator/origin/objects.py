"""Read the objects beside the log of a state."""

from keyhouse.coordinator.core.state import Running
from keyhouse.journal import StateStorage, log_name


async def read_log_object(storage: StateStorage, state: Running, name: str) -> bytes | None:
    """Return the object ``name`` beside the log of ``state``; None if it is missing.

    ``name``: the SHA-256 of the object, in hex. Raises ``UnavailableError``.
    """
    if state.public_log is None:
        return None
    return await storage.log_parts(log_name(state.public_log.verifier)).object(name)
