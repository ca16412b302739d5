"""How many parts a signing request has, counted in its bytes before any of them is read.

The library takes microseconds for each part that it reads, and a request of 16 KiB has room for
thousands. Source: RFC 2986, section 4; RFC 5280, sections 4.1 and 4.2.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

from keyhouse.wire.der_elements import der_elements

MOST_NAMES: Final = 100
"""Subject alternative names in a request, of any kind."""

MOST_PARTS: Final = 32
"""Attributes in the subject of a request; so many attributes, and extensions, beside it."""

_EXTENSION_REQUESTS: Final = (
    bytes.fromhex("2a864886f70d01090e"),  # 1.2.840.113549.1.9.14, PKCS #9
    bytes.fromhex("2b06010401823702010e"),  # 1.3.6.1.4.1.311.2.1.14, Microsoft
)
_ALTERNATIVE_NAMES: Final = bytes.fromhex("551d11")  # 2.5.29.17


def too_many_parts(request: bytes) -> str:
    """Return what ``request`` (DER) has too many of, "more than 100 names"; empty if nothing.

    Work is bounded by the limits, not by the size. Raises ``ValueError`` for what is not DER.
    """
    to_be_signed, _, _ = _children(_only(request))
    _, subject, _, *rest = _children(to_be_signed)
    attributes = (_children(each) for each in chain.from_iterable(map(_children, rest)))
    if _over(chain.from_iterable(map(_children, _children(subject))), MOST_PARTS):
        return f"more than {MOST_PARTS} attributes in its subject"
    if _over(chain.from_iterable(map(_children, rest)), MOST_PARTS):
        return f"more than {MOST_PARTS} attributes"
    extensions = list(islice(_extensions(attributes), MOST_PARTS + 1))
    if len(extensions) > MOST_PARTS:
        return f"more than {MOST_PARTS} extensions"
    if _over(chain.from_iterable(map(_alternative_names, extensions)), MOST_NAMES):
        return f"more than {MOST_NAMES} names"
    return ""


def _extensions(attributes: Iterable[Iterator[bytes]]) -> Iterator[bytes]:
    for identifier, values in attributes:
        if identifier in _EXTENSION_REQUESTS:
            for requested in _children(values):
                yield from _children(requested)


def _alternative_names(extension: bytes) -> Iterator[bytes]:
    identifier, *_, value = _children(extension)
    return _children(_only(value)) if identifier == _ALTERNATIVE_NAMES else iter(())


def _over(parts: Iterable[bytes], most: int) -> bool:
    return any(True for _ in islice(parts, most, None))


def _only(content: bytes) -> bytes:
    (only,) = _children(content)
    return only


def _children(content: bytes) -> Iterator[bytes]:
    return (inner for _, inner in der_elements(content))
