"""A subset of YAML that all parsers read alike: text into plain values, and back.

PyYAML provides only the structure. This module decides the meaning of scalars, by the core schema
of YAML 1.2 (section 10.3.2). Some constructs are refused, because readers interpret them
differently or reviewers miss them: anchors, aliases, tags, directives, merge keys, further
documents, keys that are not strings, and repeated keys. Also refused are numbers with a fraction,
an exponent or leading zeros, and line ends that only YAML 1.1 has. The library's error text is
never shown.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import yaml
from yaml import events

from keyhouse.base.errors import MOST, Problem
from keyhouse.manifest.source.source_map import NotTextError, SourceMap, Span, below, text_of
from keyhouse.wire.json_decoder import REPEATED
from keyhouse.wire.json_parser import MAX_NESTING, MAX_VALUES

MAX_YAML_BYTES: Final = 1024 * 1024
"""Maximum length in bytes of a YAML text. A larger manifest must be JSON."""

_QUOTE: Final = "if it is text, put it between quotes"
_INTEGER: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_LEADING_ZERO: Final = re.compile(r"[-+]?0[0-9]+")
_FLOAT: Final = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_WORDS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_LONGEST_INTEGER: Final = 25  # characters
_OLD_LINE_ENDS: Final = re.compile("[\x85\u2028\u2029]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_BLOCKS: Final = frozenset("|>")
_UNENDED: Final = "a string that does not end"
_REASONS: Final = {
    r"'\t'": ("a tab", "indent with spaces"),
    "found character": ("a character that begins no value", _QUOTE),
    "mapping values are not": (
        "a colon where no name ends, or wrong indentation",
        "put a value with a colon between quotes; indent the members of an object alike",
    ),
    "sequence entries are not": ("an item beside a name", "begin the list on the next line"),
    "quoted scalar: found unexpected end": (_UNENDED, "end the string with its quote"),
    "unknown escape": ("an unknown escape in a string", r"write \\ for a backslash"),
    "could not find expected ':'": (
        "a name without a colon",
        "indent a text on several lines below its name, such as Certificate: |",
    ),
    "flow sequence": ("a list that does not end, or lacks a comma", "close [ with ]"),
    "flow mapping": ("an object that does not end, or lacks a comma", "close { with }"),
    "flow node": ("it ends before its ] or }", "check that the file is complete"),
    "but found '<scalar>'": ("further text after a value", "put the whole text between quotes"),
    "<block end>": ("wrong indentation", "indent the members of an object alike"),
    "block node": ("a bracket that was not opened", _QUOTE),
    "<document start>": ("further text after its end", "remove the text after the end"),
}
"""Parts of the library's messages, with our reason and hint. The first match counts."""

_PLAIN: Final = re.compile("[A-Za-z][A-Za-z0-9_-]*", re.ASCII)
_QUOTED: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


class YamlRead(msgspec.Struct, frozen=True):
    """The value of a YAML text, its problems, and the positions of its keys and values."""

    tree: Any  # None, bool, int, str, list or dict; useless if there are problems
    problems: tuple[Problem, ...]  # sorted
    places: SourceMap


class _EndedError(Exception):
    """Ends the reading of a YAML text early. The reason is among the reader's problems."""


def read_yaml(data: bytes) -> YamlRead:
    """Return the content of the YAML document ``data`` (UTF-8, up to 1 MiB, no BOM).

    Never fails.
    """
    reader = _YamlReader()
    tree = None
    try:
        tree = reader.document(_text(data, reader.refuse_all))
    except _EndedError:
        pass
    except yaml.YAMLError as error:
        reader.refuse_syntax(error)
    return YamlRead(tree, tuple(sorted(set(reader.problems))), reader.places)


def _text(data: bytes, refuse: Callable[..., None]) -> str:
    if len(data) > MAX_YAML_BYTES:
        problem = f"has {len(data)} bytes; a YAML text may have at most {MAX_YAML_BYTES}"
        refuse(problem, hint="write a large manifest as JSON")
        raise _EndedError
    try:
        text = text_of(data)
    except NotTextError as refusal:
        refuse(refusal.problem.problem, hint=refusal.problem.hint)
        raise _EndedError from None
    if found := _OLD_LINE_ENDS.search(text):
        line = text.count("\n", 0, found.start()) + 1
        column = found.start() - text.rfind("\n", 0, found.start())
        refuse(
            "holds a line end that only YAML 1.1 knows (U+0085, U+2028, U+2029)",
            Span(line, column),
            hint="write a line feed in its place",
        )
        raise _EndedError
    return text


class _YamlReader:
    """Builds values from the YAML parser's events, and refuses unsupported YAML."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.places = SourceMap()
        self._left = MAX_VALUES
        self._events: Iterator[Any] = iter(())

    def refuse_all(self, problem: str, span: Span | None = None, *, hint: str = "") -> None:
        """Record a problem of the whole YAML text, at the position ``span`` if there is one."""
        if span is not None:
            self.places.record("", span)
        self.problems.append(Problem("", problem, hint))

    def refuse_syntax(self, error: yaml.YAMLError) -> None:
        """Record that the YAML library refuses the text: position, and reason in our words."""
        mark = getattr(error, "problem_mark", None)
        if mark is None:
            problem = "holds a character that YAML does not allow"
            self.refuse_all(problem, hint="remove control characters")
            return
        # Both are texts of the library, with at most single characters of the input.
        library_text = f"{getattr(error, 'context', '')}: {getattr(error, 'problem', '')}"
        reason, hint = next(
            (why for word, why in _REASONS.items() if word in library_text),
            ("", "check the text at this position"),
        )
        begins = getattr(error, "context_mark", None)
        unended = begins is not None and reason == _UNENDED
        self.refuse_all(
            f"invalid YAML: {reason}" if reason else "invalid YAML",
            _span(begins if unended else mark),
            hint=hint,
        )

    def document(self, text: str) -> Any:
        """Return the value of the only YAML document in ``text``."""
        self._events = yaml.parse(text, Loader=yaml.SafeLoader)
        self._expect(events.StreamStartEvent)
        first = next(self._events)
        if isinstance(first, events.StreamEndEvent):
            self.refuse_all("is empty", hint="check that this is the right file")
            raise _EndedError
        if isinstance(first, events.DocumentStartEvent) and (first.version or first.tags):
            self.refuse_all(
                "has a directive (%)", _span(first.start_mark), hint="remove the directive"
            )
        value = self._value(next(self._events), 0, "")
        next(self._events)  # the end of the document
        rest = next(self._events)
        if not isinstance(rest, events.StreamEndEvent):
            self.refuse_all(
                "holds a further document",
                _span(rest.start_mark),
                hint="remove all documents after the first document",
            )
        return value

    def _expect(self, kind: type) -> None:
        if not isinstance(next(self._events), kind):
            raise _EndedError

    def _refuse(self, path: str, problem: str, hint: str = "") -> None:
        self.problems.append(Problem(path, problem, hint))
        if len(self.problems) >= MOST:
            raise _EndedError

    def _value(self, event: Any, depth: int, path: str) -> Any:
        self._left -= 1
        if self._left < 0 or depth > MAX_NESTING:
            limit = (
                f"more than {MAX_VALUES} values" if self._left < 0 else f"over {MAX_NESTING} levels"
            )
            self.refuse_all(f"has {limit}", _span(event.start_mark), hint="shorten the manifest")
            raise _EndedError
        if isinstance(event, events.AliasEvent):
            self._refuse(
                path, "is an alias (*)", "write the part out: YAML aliases are not supported"
            )
            return None
        self._refuse_decoration(event, path)
        if isinstance(event, events.MappingStartEvent):
            return self._mapping(depth, path)
        if isinstance(event, events.SequenceStartEvent):
            return self._sequence(depth, path)
        return self._scalar(event, path)

    def _refuse_decoration(self, event: events.NodeEvent, path: str) -> None:
        if event.anchor:
            self._refuse(path, "has an anchor (&)", "write the part out at each place")
        if getattr(event, "tag", None):
            self._refuse(path, "has a tag (!)", "remove the tag; put text between quotes")

    def _sequence(self, depth: int, path: str) -> list[Any]:
        made: list[Any] = []
        for event in self._events:
            if isinstance(event, events.SequenceEndEvent):
                break
            inner = below(path, len(made))
            self.places.record(inner, _span(event.start_mark, event.end_mark))
            made.append(self._value(event, depth + 1, inner))
        return made

    def _mapping(self, depth: int, path: str) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for event in self._events:
            if isinstance(event, events.MappingEndEvent):
                break
            name = self._key(event, path)
            inner = below(path, name)
            self.places.record(inner, _span(event.start_mark, event.end_mark), is_key=True)
            if name in made:
                self._refuse(inner, REPEATED, "keep one of them")
            value = next(self._events)
            if isinstance(value, events.ScalarEvent) and value.style not in _BLOCKS:
                self.places.record(inner, _span(value.start_mark, value.end_mark))
            made[name] = self._value(value, depth + 1, inner)
        return made

    def _key(self, event: Any, path: str) -> str:
        if not isinstance(event, events.ScalarEvent):
            hint = 'put a template between quotes: "{{ hex .Secrets.name }}"'
            self.refuse_all("has a key that is not a string", _span(event.start_mark), hint=hint)
            raise _EndedError
        name = event.value
        inner = below(path, name)
        self._refuse_decoration(event, inner)
        self._refuse_surrogates(name, inner)
        if event.style is None and (name == "<<" or _meaning(name) is not name):
            hint = "write the parts out: merge keys are not supported" if name == "<<" else _QUOTE
            self._refuse(inner, "is a key that is not a string", hint)
        return str(name)

    def _scalar(self, event: Any, path: str) -> Any:
        text: str = event.value
        self._refuse_surrogates(text, path)
        if event.style is not None:
            return text
        if _LEADING_ZERO.fullmatch(text):
            self._refuse(path, "is a number with leading zeros", _QUOTE)
        elif _INTEGER.fullmatch(text):
            if len(text) > _LONGEST_INTEGER:
                self._refuse(path, "is a number out of range", _QUOTE)
        elif _FLOAT.fullmatch(text):
            self._refuse(path, "is a number with a fraction or an exponent", _QUOTE)
        return _meaning(text)

    def _refuse_surrogates(self, text: str, path: str) -> None:
        if _SURROGATE.search(text):
            self._refuse(path, "holds half of a surrogate pair", "write the whole character")


def _meaning(text: str) -> Any:
    """Return the value of the plain scalar ``text``: None, bool, int, or ``text`` as a string.

    A number that the reader refuses becomes 0.
    """
    if text in _WORDS:
        return _WORDS[text]
    if _FLOAT.fullmatch(text) or _INTEGER.fullmatch(text):
        if not _INTEGER.fullmatch(text) or len(text) > _LONGEST_INTEGER:
            return 0
        return int(text, 0) if text.startswith(("0o", "0x")) else int(text)
    return text


def _span(start: Any, end: Any = None) -> Span:
    """Return the position of a part of the text; a part over several lines has the width 1.

    ``start`` and ``end`` are marks of the YAML library.
    """
    width = end.column - start.column if end is not None and end.line == start.line else 1
    return Span(start.line + 1, start.column + 1, max(1, width))


class _Writer(yaml.SafeDumper):
    """Writes YAML without aliases. A string that could pass for a different type is quoted."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 no value is shared
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 the library's own signature
        super().increase_indent(flow, indentless=False)


def _string(writer: _Writer, text: str) -> yaml.ScalarNode:
    if "\n" in text:
        style: str | None = "|"
    else:
        word = _PLAIN.fullmatch(text) and text.lower() not in _QUOTED
        style = None if word else '"'
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Writer.add_representer(str, _string)


def write_yaml(value: Any) -> str:
    """Return ``value`` (None, bool, int, str, list, dict) as a YAML document, in block style."""
    text: str = yaml.dump(value, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=10_000)
    return text
