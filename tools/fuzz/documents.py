"""Changes of JSON documents: replaced values, and removed, repeated or renamed members."""

import json
from random import Random
from typing import Any, Final

from fuzz.mutations import mutated

__all__ = ["changed_document", "changed_value"]

_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 2, 3, 255, 256, 65535, 65536, 2**31, 2**63, 2**64, 10**30),
    *(0.5, 1e300, "", "0", "00", "SGX", "TDX", "QE", "TD_QE", "UpToDate", "Revoked", "uptodate"),
    *("000000000000", "ffffffffffff", "FFFFFFFF", "0000", "zz", "é", "\0", "a" * 300),
    *("2000-01-01T00:00:00Z", "2100-01-01T00:00:00Z", "2026-03-01T12:00:00+14:00", "now"),
    *([], {}, [[]], [{}], {"svn": 0}, [{"svn": 255}] * 16, ["INTEL-SA-00000"]),
)


def changed_document(text: str, chance: Random) -> str:
    """Return the JSON object ``text`` with changes. The result may be invalid JSON."""
    if chance.random() < 0.15:
        return mutated(text.encode(), chance).decode(errors="replace")
    value = json.loads(text)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        value = changed_value(value, chance)
    written = json.dumps(value, separators=(",", ":"), ensure_ascii=chance.random() < 0.5)
    if chance.random() < 0.1:  # a repeated member
        name = chance.choice(list(value)) if isinstance(value, dict) and value else "version"
        again = f"{json.dumps(name)}:{json.dumps(chance.choice(_VALUES))}"
        written = (
            f"{{{again},{written[1:]}" if chance.random() < 0.5 else f"{written[:-1]},{again}}}"
        )
    return written


def changed_value(value: Any, chance: Random) -> Any:
    """Return ``value`` with one changed part."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        name = chance.choice(list(value))
        rest = dict(value)
        how = chance.random()
        if how < 0.7:
            rest[name] = changed_value(value[name], chance)
        elif how < 0.8:
            del rest[name]
        elif how < 0.9:
            rest[chance.choice((name.upper(), name + "x", "", "id"))] = rest.pop(name)
        else:
            rest["more"] = chance.choice(_VALUES)
        return rest
    if isinstance(value, list) and value and chance.random() < 0.8:
        at = chance.randrange(len(value))
        how = chance.random()
        if how < 0.7:
            return [*value[:at], changed_value(value[at], chance), *value[at + 1 :]]
        return value[:at] + value[at + 1 :] if how < 0.85 else [*value, value[at]]
    if isinstance(value, int) and not isinstance(value, bool) and chance.random() < 0.5:
        return value + chance.choice((-1, 1))
    return chance.choice(_VALUES)
