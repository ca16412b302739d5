"""Writes values as YAML text that all parsers read alike, this project's reader first."""

import re
from typing import Any, Final

import yaml

_PLAIN: Final = re.compile("[A-Za-z][A-Za-z0-9_-]*", re.ASCII)
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


class _Writer(yaml.SafeDumper):
    """Quotes what could be read as something other than a string; writes no aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 nothing is shared
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 the library's own signature
        super().increase_indent(flow, indentless=False)


def _string(writer: _Writer, text: str) -> yaml.ScalarNode:
    if "\n" in text:
        style: str | None = "|"
    else:
        word = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
        style = None if word else '"'
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Writer.add_representer(str, _string)


def write_yaml(value: Any) -> str:
    """Return ``value`` (None, bool, int, str, list, dict) as a YAML document, in block style."""
    text: str = yaml.dump(value, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=10_000)
    return text
