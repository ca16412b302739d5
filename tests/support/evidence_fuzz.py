"""Evidence files with one random change, in the file or in a leaf that is signed again."""

import binascii
import copy
import random
import struct
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from keyhouse.evidence.bundle import write_evidence
from keyhouse.transparency.errors import LogInvalidError
from support.evidence import Maker, Said, history
from support.evidence_damage import changed

__all__ = ["damaged", "signed_again", "with_other_bytes", "with_other_value"]


def damaged(maker: Maker, number: int, seed: int) -> Iterator[bytes]:
    """Yield ``number`` files, a third for each kind of change; some files stay unchanged."""
    chosen = random.Random(seed)  # noqa: S311 cases of a test
    said = history(maker)
    good = write_evidence(maker.evidence(said, milestones=(3, 8)))
    for index in range(number):
        match index % 3:
            case 0:
                yield with_other_bytes(good, chosen)
            case 1:
                yield with_other_value(good, chosen)
            case _:
                yield signed_again(maker, said, chosen) or good


def with_other_value(raw: bytes, chosen: random.Random) -> bytes:
    """Return the file with one value of its JSON changed."""
    return changed(raw, lambda document: _somewhere(document, chosen))


def with_other_bytes(raw: bytes, chosen: random.Random) -> bytes:
    """Return the file with one byte changed, left out or repeated."""
    place = chosen.randrange(len(raw))
    match chosen.randrange(3):
        case 0:
            return raw[:place] + bytes([raw[place] ^ 1 << chosen.randrange(8)]) + raw[place + 1 :]
        case 1:
            return raw[:place] + raw[place + 1 :]
        case _:
            return raw[:place] + raw[place : place + 1] + raw[place:]


def signed_again(maker: Maker, said: list[Said], chosen: random.Random) -> bytes:
    """Return the file of a history with one change, or nothing if the maker cannot sign it."""
    altered = copy.deepcopy(said)
    if chosen.random() < 0.3:
        _of_list(altered, chosen)
    else:
        _somewhere(chosen.choice(altered), chosen)
    refusals = (ValueError, KeyError, TypeError, AttributeError, struct.error, LogInvalidError)
    with suppress(*refusals):
        return write_evidence(maker.evidence(altered))
    return b""


def _somewhere(value: Any, chosen: random.Random) -> None:
    """Change one random place inside ``value``, a list or an object."""
    places = list(range(len(value))) if isinstance(value, list) else sorted(value)
    if not places:
        return
    place = chosen.choice(places)
    inner = value[place]
    if isinstance(inner, dict | list) and inner and chosen.random() < 0.8:
        _somewhere(inner, chosen)
    elif isinstance(value, list) and chosen.random() < 0.5:
        _of_list(value, chosen)
    elif isinstance(value, dict) and chosen.random() < 0.1:
        del value[place]
    else:
        value[place] = _other(inner, chosen)


def _of_list(value: list[Any], chosen: random.Random) -> None:
    """Delete, repeat or move an item."""
    place, other = chosen.randrange(len(value)), chosen.randrange(len(value))
    match chosen.randrange(3):
        case 0:
            del value[place]
        case 1:
            value.insert(other, copy.deepcopy(value[place]))
        case _:
            value[place], value[other] = value[other], value[place]


def _other(value: object, chosen: random.Random) -> object:
    if isinstance(value, int):
        return chosen.choice((value + 1, value - 1, 0, 2**53, str(value)))
    if not isinstance(value, str):
        return chosen.choice(("", 0, [], None))
    with suppress(binascii.Error, ValueError):
        raw = bytearray(b64decode(value, validate=True))
        if raw and chosen.random() < 0.7:
            raw[chosen.randrange(len(raw))] ^= 1 << chosen.randrange(8)
            return b64encode(raw).decode()
    place = chosen.randrange(len(value) + 1)
    return chosen.choice(
        ("", "0" * 64, value[:place] + chosen.choice("0aA \n\u00e9") + value[place:])
    )
