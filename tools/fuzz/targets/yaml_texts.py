"""YAML texts, read by Keyhouse and by PyYAML's own loaders.

Oracle: ``read_yaml`` raises no exception. A text without a problem has the same shape and the same
texts in PyYAML's ``BaseLoader``. Each scalar follows the core schema of YAML 1.2. PyYAML's
``SafeLoader`` (YAML 1.1) may differ only for ``yes``, ``no``, ``on``, ``off`` and ``=``, for dates,
for numbers with a colon or an underscore, for binary numbers, for hexadecimal numbers with a sign,
and for octal numbers. The nesting stays below its limit.
"""

import datetime as dt
import re
from random import Random
from typing import Any, ClassVar, Final

import yaml
from fuzz.mutations import mutated
from fuzz.target import FindingError, Target

from keyhouse.manifest.source.yaml_text import read_yaml
from keyhouse.wire.json_parser import MAX_NESTING

__all__ = ["YamlTarget"]

_TEXTS: Final = (
    b"a: 1\nb:\n  - x\n  - 'y: z'\n  - {c: true, d: null, e: [1, 2]}\n",
    b'Packages:\n  app:\n    UniqueID: "00ff"\n    Debug: false\n    ProductID: 3\n# end\n',
    b"text: |\n  line\n   more\nfold: >-\n  a\n  b\n\nempty:\n'quoted key': \"\\u00e9\\n\"\n",
    b"[1, -2, 0x1F, 0o17, ~, \"\", 'it''s', plain text, http://a:1/b]\n",
)
_WORDS: Final = (
    *(b"&a ", b"*a", b"!!str ", b"!x ", b"%YAML 1.1\n", b"---\n", b"...\n", b"<<: ", b"? ", b": "),
    *(b"- ", b"\n", b"\n  ", b"\t", b" #", b"|", b">", b"|2-", b"'", b'"', b"\\", b"\\x41", b"\\U"),
    *(b"yes", b"no", b"on", b"2001-01-01", b"1:30", b"1_000", b"012", b"1e3", b".5", b"0b1", b"="),
    *(b".inf", b"+1", b"-0", b"9" * 30, b"NULL", b"True", b"\xc2\x85", b"\xe2\x80\xa8", b"\xff"),
    *(
        b"[" * 80,
        b"{a: " * 80,
        b"- " * 80,
        b"\xef\xbb\xbf",
        b"\x00",
        b"\x7f",
        b"[,]",
        b"{,}",
        b"a: b: c",
    ),
)
_INTEGER: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_NULLS: Final = {"", "~", "null", "Null", "NULL"}
_TRUTHS: Final = {"true": True, "True": True, "TRUE": True}
_FALSEHOODS: Final = {"false": False, "False": False, "FALSE": False}
_OLD: Final = re.compile(
    r"(?i:yes|no|on|off)|=|[-+0-9_:.]+|[-+]?0b[01_]+|[0-9:TtZ.+ \t-]+|[-+]?0x[0-9a-fA-F_]*"
)


class YamlTarget(Target):
    """Changed YAML texts."""

    name: ClassVar[str] = "yaml"
    about: ClassVar[str] = "YAML texts, compared with PyYAML's loaders"

    def draw(self, chance: Random) -> bytes:
        """Return a changed text."""
        return mutated(chance.choice(_TEXTS), chance, _WORDS)

    def judge(self, case: bytes) -> str:
        """Read the text. Compare a text without problems with PyYAML."""
        found = read_yaml(case)
        if found.problems:
            return f"refused: {re.sub(r'[0-9]+', 'N', found.problems[0].problem)}"
        text = case.decode()
        _compare(found.tree, yaml.load(text, Loader=yaml.BaseLoader), 0)  # noqa: S506 - strings only
        try:
            safe = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError):  # an invalid date
            return "accepted: PyYAML takes a scalar for a date"
        return "accepted" if _same(found.tree, safe) else "accepted: YAML 1.1 says otherwise"


def _compare(ours: Any, base: Any, depth: int) -> None:
    """Compare with a tree of strings from ``BaseLoader``."""
    if depth > MAX_NESTING:
        raise FindingError("a text was accepted that is nested too deeply")
    if isinstance(base, dict):
        if not isinstance(ours, dict) or list(ours) != list(base):
            raise FindingError("mappings differ")
        for name, value in base.items():
            _compare(ours[name], value, depth + 1)
    elif isinstance(base, list):
        if not isinstance(ours, list) or len(ours) != len(base):
            raise FindingError("lists differ")
        for one, other in zip(ours, base, strict=True):
            _compare(one, other, depth + 1)
    elif not _means(ours, base):
        raise FindingError("a scalar does not follow YAML 1.2")


def _means(ours: Any, text: str) -> bool:
    """Return whether a scalar with this text may have this value (YAML 1.2, 10.3.2)."""
    if ours is None:
        return text in _NULLS
    if isinstance(ours, bool):
        return (_TRUTHS | _FALSEHOODS).get(text) is ours
    if isinstance(ours, int):
        return _INTEGER.fullmatch(text) is not None and ours == _number(text)
    return bool(ours == text)


def _number(text: str) -> int:
    return int(text, 0) if text.startswith(("0o", "0x")) else int(text)


def _same(ours: Any, safe: Any) -> bool:
    """Return whether ``SafeLoader`` reads the same value.

    Raises ``FindingError`` for an unknown difference.
    """
    if isinstance(safe, dict) and isinstance(ours, dict):
        if len(safe) != len(ours):
            return False
        # ``min`` compares all values. ``all`` would stop at the first difference.
        return min(map(_same, ours.values(), safe.values()), default=True)
    if isinstance(safe, list) and isinstance(ours, list):
        return min(map(_same, ours, safe), default=True)
    if type(ours) is type(safe) and ours == safe:
        return True
    # Both readers return a quoted text as a string, so this text is not quoted.
    if isinstance(ours, str) and isinstance(safe, bool | int | float | dt.date):
        known = _OLD.fullmatch(ours) is not None
    else:
        # 0o17 is a string in YAML 1.1, and 017 is octal there.
        known = isinstance(ours, int) and isinstance(safe, str | int)
    if not known:
        raise FindingError("PyYAML reads a scalar as a different value")
    return False
