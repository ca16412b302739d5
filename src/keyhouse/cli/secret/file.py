"""The file that `keyhouse secret set` uploads: name to value, as the interface has it."""

from keyhouse.base.errors import Invalid
from keyhouse.wire.json_decoder import Unreadable, read
from keyhouse.wire.secret_types import UserSecret

__all__ = ["read_secret_file"]


def read_secret_file(content: bytes) -> dict[str, UserSecret]:
    """Return the uploads by name from JSON; bytes are base64.

    Raises ``Invalid`` with every problem, also for unknown fields and names that come twice: a
    value that is not used must not look uploaded.
    """
    try:
        found = read(content, dict[str, UserSecret])
    except Unreadable as unreadable:
        raise Invalid("the file of secrets", unreadable.problems) from None
    if found.problems:
        raise Invalid("the file of secrets", found.problems)
    return found.value
