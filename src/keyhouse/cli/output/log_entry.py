"""Format the fields of an entry of the update log for people."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from keyhouse.views.visible import listed

_TITLE: Final = frozenset({"time", "update"})
_MISSING: Final = "missingAcknowledgments"
_NAMES: Final = "missingUsers"


def entry_words(fields: Mapping[str, Any]) -> list[str]:
    """Return ``name=value`` for each of ``fields``, the fields of an entry of the update log.

    Time and text of the entry are left out. If the update needs no more acknowledgements, the users
    who have not agreed are left out, too.
    """
    shown = {name: value for name, value in fields.items() if name not in _TITLE}
    if shown.get(_MISSING) == 0:
        shown.pop(_MISSING)
        shown.pop(_NAMES, None)
    return [f"{name}={_word(value)}" for name, value in shown.items()]


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return listed(value)
    return msgspec.json.encode(value).decode()
