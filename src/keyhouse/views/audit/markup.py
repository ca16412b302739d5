"""HTML as text: elements whose content is escaped unless it is HTML already."""

from collections.abc import Sequence
from html import escape

from keyhouse.base.printable import printable


class Html(str):
    """Text that is HTML already, so it is not escaped again."""

    __slots__ = ()


def element(name: str, *content: str, **attributes: str) -> Html:
    """Return the element ``name``; an attribute ``class_`` is written ``class``.

    Content and attributes are escaped, and unprintable characters shown as escapes: an evidence
    file can be made by anybody.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value
    )
    return Html(f"<{name}{given}>{joined(*content)}</{name}>")


def joined(*content: str) -> Html:
    """Return ``content`` one behind the other, each escaped if it is not HTML."""
    return Html("".join(map(escaped, content)))


def escaped(text: str) -> Html:
    """Return ``text`` as HTML."""
    return text if isinstance(text, Html) else Html(escape(printable(text)))


def listing(items: Sequence[str], class_: str = "") -> Html:
    """Return a list of ``items``; nothing without items."""
    if not items:
        return Html("")
    return element("ul", *(element("li", each) for each in items), class_=class_)
