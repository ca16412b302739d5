r"""Show names from other people safely: escape characters that are invisible or reorder text.

The name ``\u202egnp.exe`` looks like ``exe.png``, and ``dev\u200b`` looks like ``dev``. A user
who approves an update must see the difference. ``keyhouse.base.printable`` escapes the characters
that Unicode calls control, format and separator characters. Some letters and marks are invisible,
too.
"""

import json
import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from keyhouse.base.printable import printable

# Invisible characters outside of the categories C and Z: those with the property
# Default_Ignorable_Code_Point (DerivedCoreProperties.txt), and the empty Braille pattern.
_MORE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.@-]+", re.ASCII)


def is_visible(char: str) -> bool:
    """Return whether ``char`` has a shape, or is a space."""
    return char.isprintable() and not _MORE.match(char)


def visible(text: str) -> str:
    r"""Return ``text`` with every invisible character escaped, for example as ``\u202e``."""
    escaped = printable(text)
    if escaped.isascii():
        return escaped
    return _MORE.sub(lambda found: found[0].encode("unicode_escape").decode(), escaped)


def listed(names: Iterable[str]) -> str:
    """Return ``names`` with commas between them.

    Plain words stay as they are. Other names are quoted as JSON strings, so a comma in a name
    forges no further name.
    """
    return ", ".join(each if _PLAIN.fullmatch(each) else _quoted(each) for each in names)


def code_point(char: str) -> str:
    """Return the number and the name of a character, for example ``U+200B (ZERO WIDTH SPACE)``."""
    name = unicodedata.name(char, "")
    return f"U+{ord(char):04X}" + (f" ({name})" if name else "")


def _quoted(name: str) -> str:
    return visible(json.dumps(name, ensure_ascii=False))
