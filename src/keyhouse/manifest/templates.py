"""The template language of ``Files`` and ``Env``: a subset of Go's ``text/template``.

Supported (``docs/reference/manifest.md``, "Templates"); everything else is refused::

    text    = { literal | "{{" expr "}}" | "{{/* comment */}}" }
    expr    = func arg | arg "|" func
    arg     = path | "(" path ")" | "(" 'index' section string ")", then optionally "." member
    path    = ".MarbleRun." reserved "." member | section "." name [ "." member ]
    section = ".Secrets" | ".Previous.Secrets"
    member  = "Cert" | "Public" | "Private"
    func    = "pem" | "hex" | "base64" | "raw" | "string"

``{{- `` and `` -}}`` remove white space before and after. Content may be any bytes, which pass
through unchanged.
"""

import base64
import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from keyhouse.base.errors import BadRequestError, NotFoundError
from keyhouse.base.pem import pem_block
from keyhouse.base.printable import quoted
from keyhouse.base.secret import Secret


class TemplateSource(StrEnum):
    """The source of a value in a template: the secrets of a manifest, or the marble itself.

    ``PREVIOUS``: the secrets from before the last update of the manifest. ``MARBLERUN``: values of
    the marble itself.
    """

    MARBLERUN = "MarbleRun"  # reserved values
    SECRETS = "Secrets"
    PREVIOUS = "Previous.Secrets"


class SecretValue(Protocol):
    """The value of a secret for templates: a certificate with its keys, or plain bytes."""

    @property
    def private(self) -> Secret:
        """The private key in PKCS #8 (DER); of a secret that is not a certificate, the bytes."""
        ...

    @property
    def public(self) -> Secret:
        """The SubjectPublicKeyInfo (DER); of a secret that is not a certificate, the bytes."""
        ...

    @property
    def cert(self) -> bytes:
        """The certificate (DER); empty for a secret that is not a certificate."""
        ...


class TemplateCall(msgspec.Struct, frozen=True):
    """An action in a template: ``{{ function .source.name.member }}``.

    Without a ``member``, the action stands for the public part of the secret.
    """

    function: str
    source: TemplateSource
    name: str
    member: str = ""

    def __str__(self) -> str:
        member = f".{self.member}" if self.member else ""
        if self.name.isidentifier():
            return f"{self.function} .{self.source}.{self.name}{member}"
        return f"{self.function} (index .{self.source} {quoted(self.name)}){member}"


class MissingValueError(NotFoundError):
    """A template needs a value that does not exist yet. ``call`` names the value."""

    code = "missing-value"

    def __init__(self, call: TemplateCall) -> None:
        super().__init__(f"there is no value for {call}", hint="upload the secret first")
        self.call = call


class Values(msgspec.Struct, frozen=True):
    """The secrets and names that fill the templates of a workload."""

    marblerun: Mapping[str, SecretValue]
    secrets: Mapping[str, SecretValue]
    previous: Mapping[str, SecretValue]


class Template(msgspec.Struct, frozen=True):
    """A parsed template: literal bytes and calls, in order."""

    parts: tuple[bytes | TemplateCall, ...]

    @property
    def calls(self) -> tuple[TemplateCall, ...]:
        """The calls of this template, in order. They name all values that rendering needs."""
        return tuple(part for part in self.parts if isinstance(part, TemplateCall))

    def pieces(self, values: Values, bundle: bytes) -> tuple[bytes | TemplateCall, ...]:
        """Return the content in order, for a workload that renews its certificate.

        Such a workload makes its key itself. So the parts of the marble certificate stay as calls,
        and the workload fills them in. ``bundle`` (PEM) has all roots that workloads trust, and
        replaces the marble root in PEM. Errors as for ``render``.
        """
        return tuple(
            part
            if isinstance(part, bytes) or _is_own(part)
            else bundle
            if part == _ROOT_IN_PEM
            else _evaluate(part, values)
            for part in self.parts
        )

    def render(self, values: Values) -> bytes:
        """Return the content with ``values`` filled in. The content is as secret as the values.

        Raises ``MissingValueError`` for an unknown or empty value. Raises ``BadRequestError`` if
        the function ``string`` has a value with a zero byte.
        """
        return b"".join(
            part if isinstance(part, bytes) else _evaluate(part, values) for part in self.parts
        )


def parse(data: bytes) -> Template:
    """Return the parsed template ``data``.

    Raises ``BadRequestError`` for an unsupported action, with a hint at the supported forms. This
    function does not check whether names, functions and types of secrets fit together.
    """
    if b"{{" not in data:
        return Template((data,) if data else ())
    text = data.decode(errors="surrogateescape")
    parts: list[bytes | TemplateCall] = []
    position, trim = 0, False
    while (start := text.find("{{", position)) >= 0:
        literal = text[position:start]
        opened = re.compile(_TRIM_BEFORE).match(text, start)
        _append(parts, literal.lstrip(_SPACE) if trim else literal, trim_end=opened is not None)
        call, position, trim = _action(text, opened.end() if opened else start + 2, start)
        if call is not None:
            parts.append(call)
    rest = text[position:]
    _append(parts, rest.lstrip(_SPACE) if trim else rest, trim_end=False)
    return Template(tuple(parts))


_SPACE = " \t\r\n"
_TRIM_BEFORE = r"\{\{-(?=[ \t\r\n])[ \t\r\n]*"
_COMMENT_END = r"\*/(?:[ \t\r\n]+-)?\}\}"
_LEXEME = r"""
      (?P<space>[ \t\r\n]++(?!-\}\}))
    | (?P<end>[ \t\r\n]+-\}\}|\}\})
    | (?P<path>(?:\.[^\W\d]\w*+)+)
    | (?P<word>[^\W\d]\w*+)
    | (?P<string>"(?:[^"\\\n]|\\.)*"|`[^`]*+`)
    | (?P<mark>[()|])
    """
# The form of nearly every action, such as `` hex .Secrets.name }}``, in a single match.
_COMMON = r"[ \t\r\n]*+([^\W\d]\w*+)[ \t\r\n]++((?:\.[^\W\d]\w*+)+)[ \t\r\n]*+\}\}"
_SUPPORTED = (
    "supported are pem, hex, base64, raw and string with one value:"
    " {{ hex .Secrets.name }}, {{ .Secrets.name.Cert | pem }}, {{ raw (index .Secrets"
    ' "my-name").Private }}, and {{/* comments */}}'
)

_Token = tuple[str, str]


def _append(parts: list[bytes | TemplateCall], literal: str, *, trim_end: bool) -> None:
    literal = literal.rstrip(_SPACE) if trim_end else literal
    if literal:
        parts.append(literal.encode(errors="surrogateescape"))


def _action(text: str, position: int, start: int) -> tuple[TemplateCall | None, int, bool]:
    """Return the call of the action at ``position``; None for a comment.

    ``start``: the position of the opening braces, for errors. Also return the position after the
    action, and whether to remove white space there.
    """
    if text.startswith("/*", position):
        found = re.compile(_COMMENT_END).search(text, position + 2)
        if found is None:
            raise _refusal(text, start, "a comment that does not end")
        return None, found.end(), "-" in found[0]
    common = re.compile(_COMMON).match(text, position)
    if common is not None:
        tokens, position, trim = [("word", common[1]), ("path", common[2])], common.end(), False
    else:
        tokens, position, trim = _tokens(text, position, start)
    call = _call(tokens)
    if call is None:
        raise _refusal(text, start, "an action that is not supported")
    return call, position, trim


def _tokens(text: str, position: int, start: int) -> tuple[list[_Token], int, bool]:
    tokens: list[_Token] = []
    while True:
        found = re.compile(_LEXEME, re.VERBOSE).match(text, position)
        if found is None or len(tokens) > _LONGEST:
            raise _refusal(text, start, "an action that is not supported or does not end")
        position, kind = found.end(), str(found.lastgroup)
        if kind == "end":
            return tokens, position, "-" in found[0]
        # A member belongs to a ")" only without space in between.
        if kind != "space":
            tokens.append((kind, found[0]))
        elif tokens and tokens[-1] == ("mark", ")"):
            tokens.append(("space", ""))


_LONGEST = 12  # tokens; more than the longest supported action has


def _call(tokens: list[_Token]) -> TemplateCall | None:
    if tokens and tokens[-1][0] == "space":
        tokens = tokens[:-1]
    if len(tokens) >= 2 and tokens[0][0] == "word":  # noqa: PLR2004  a function and an argument
        function, argument = tokens[0][1], tokens[1:]
    elif len(tokens) >= 3 and tokens[-2] == ("mark", "|") and tokens[-1][0] == "word":  # noqa: PLR2004
        function, argument = tokens[-1][1], tokens[:-2]
    else:
        return None
    if argument and argument[-1][0] == "space":
        argument = argument[:-1]
    steps = _argument(argument) if function in _FUNCTIONS else None
    return None if steps is None else _reference(function, steps)


def _argument(tokens: list[_Token]) -> list[str] | None:
    """Return the path of the value in an action, as steps: ``["Secrets", "my-name", "Cert"]``.

    None: the form of the action is not supported.
    """
    match tokens:
        case [("path", path)]:
            return path.split(".")[1:]
        case [("mark", "("), *inner, ("mark", ")")]:
            return _inner(inner)
        case [("mark", "("), *inner, ("mark", ")"), ("path", member)]:
            steps = _inner(inner)
            return None if steps is None else steps + member.split(".")[1:]
    return None


def _inner(tokens: list[_Token]) -> list[str] | None:
    match tokens:
        case [("path", path)]:
            return path.split(".")[1:]
        case [("word", "index"), ("path", ".Secrets" | ".Previous.Secrets" as path), _]:
            name = _string(*tokens[2])
            return None if name is None else [*path.split(".")[1:], name]
    return None


def _string(kind: str, text: str) -> str | None:
    if kind != "string":
        return None
    try:
        name = text[1:-1] if text[0] == "`" else json.loads(text)
        name.encode()
    except ValueError:
        return None
    return str(name)


def _reference(function: str, steps: list[str]) -> TemplateCall | None:
    match steps:
        case ["MarbleRun", name, member] if member in PEM_LABELS:
            return TemplateCall(function, TemplateSource.MARBLERUN, name, member)
        case ["Secrets", name]:
            return TemplateCall(function, TemplateSource.SECRETS, name)
        case ["Secrets", name, member] if member in PEM_LABELS:
            return TemplateCall(function, TemplateSource.SECRETS, name, member)
        case ["Previous", "Secrets", name]:
            return TemplateCall(function, TemplateSource.PREVIOUS, name)
        case ["Previous", "Secrets", name, member] if member in PEM_LABELS:
            return TemplateCall(function, TemplateSource.PREVIOUS, name, member)
    return None


_FUNCTIONS = {"pem", "hex", "base64", "raw", "string"}


def _refusal(text: str, start: int, problem: str) -> BadRequestError:
    line = text.count("\n", 0, start) + 1
    column = start - text.rfind("\n", 0, start)
    return BadRequestError(f"has {problem}, line {line}, column {column}", hint=_SUPPORTED)


def _evaluate(call: TemplateCall, values: Values) -> bytes:
    maps = {
        TemplateSource.MARBLERUN: values.marblerun,
        TemplateSource.SECRETS: values.secrets,
        TemplateSource.PREVIOUS: values.previous,
    }
    value = maps[call.source].get(call.name)
    content = b"" if value is None else member_bytes(value, call.member)
    if not content:
        raise MissingValueError(call)
    return _apply(call, content)


def member_bytes(value: SecretValue, member: str) -> bytes:
    """Return the bytes of ``member`` of ``value``; the public part if ``member`` is empty.

    For keys and plain data, private and public part are the same bytes.
    """
    if member == "Cert":
        return value.cert
    return (value.private if member == "Private" else value.public).reveal()


def _is_own(call: TemplateCall) -> bool:
    return call.source is TemplateSource.MARBLERUN and call.name == "MarbleCert"


_ROOT_IN_PEM: Final = TemplateCall("pem", TemplateSource.MARBLERUN, "RootCA", "Cert")


def _apply(call: TemplateCall, content: bytes) -> bytes:
    if call.function == "hex":
        return content.hex().encode()
    if call.function == "base64":
        return base64.b64encode(content)
    if call.function == "pem":
        return pem_block(PEM_LABELS[call.member], content).encode()
    if call.function == "string" and 0 in content:
        raise BadRequestError(f"the value of {call} has a zero byte", hint="use hex or base64")
    return content


PEM_LABELS: Final = {"Cert": "CERTIFICATE", "Public": "PUBLIC KEY", "Private": "PRIVATE KEY"}
