"""HTML as text. Elements escape content that is not already HTML."""

from collections.abc import Sequence
from html import escape

from keyhouse.base.printable import printable


class Html(str):
    """Text that is already HTML, so it is not escaped again."""

    __slots__ = ()


def element(name: str, *content: str, **attributes: str) -> Html:
    """Return the HTML element ``name``. The keyword ``class_`` becomes the attribute ``class``.

    Content and attributes are escaped, because anyone can produce an evidence file. Unprintable
    characters appear as escapes.
    """
    markup = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value
    )
    return Html(f"<{name}{markup}>{joined(*content)}</{name}>")


def joined(*content: str) -> Html:
    """Join ``content``, and escape each text that is not HTML."""
    return Html("".join(map(escaped, content)))


def escaped(text: str) -> Html:
    """Return ``text`` as HTML."""
    return text if isinstance(text, Html) else Html(escape(printable(text)))


def listing(items: Sequence[str], class_: str = "") -> Html:
    """Return ``items`` as an HTML list of the CSS class ``class_``; an empty text without items."""
    if not items:
        return Html("")
    return element("ul", *(element("li", each) for each in items), class_=class_)
