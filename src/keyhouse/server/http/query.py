"""Query strings: repeated parameters in order, malformed pairs dropped.

Source: wire reference of the interface, "Query strings".
"""

import re
from typing import Final
from urllib.parse import unquote_to_bytes

_BAD_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})|;")


def values(query: bytes, wanted: str) -> list[str]:
    """Return the values of the parameter ``wanted``, in order.

    Pairs with bad escapes, with a semicolon, or that are not UTF-8 are dropped.
    """
    found = []
    for pair in query.split(b"&"):
        if _BAD_ESCAPE.search(pair):
            continue
        name, _, value = pair.partition(b"=")
        if _text(name) == wanted and (text := _text(value)) is not None:
            found.append(text)
    return found


def _text(encoded: bytes) -> str | None:
    if b"%" in encoded or b"+" in encoded:  # rarely, and the rest costs a read most of its time
        encoded = unquote_to_bytes(encoded.replace(b"+", b" "))
    try:
        return encoded.decode("utf-8")
    except UnicodeDecodeError:
        return None
