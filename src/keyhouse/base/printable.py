"""Text that may be shown: nothing in it can forge a line or drive a terminal."""

__all__ = ["printable"]


def printable(text: str) -> str:
    """Return ``text`` with everything but printable characters and spaces escaped."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
