"""Templates of ``Files`` and ``Env``.

Oracle: the only permitted exception of the parser is ``BadRequestError``. An accepted text without
an action stays unchanged. The parser reads the written form of each accepted call as the same call.
If the rules of manifests accept all calls, the result is bytes, ``MissingValueError`` for a missing
value, or ``BadRequestError`` for a zero byte in ``string``.
"""

from random import Random
from typing import ClassVar, Final

import msgspec
from fuzz.mutations import mutated
from fuzz.target import FindingError, Target

from keyhouse.base.errors import BadRequestError
from keyhouse.base.secret import Secret
from keyhouse.manifest.rules.marbles import call_problem
from keyhouse.manifest.templates import MissingValueError, Template, TemplateCall, Values, parse
from keyhouse.wire.secret_types import SecretType

__all__ = ["TemplateTarget"]

_TEXTS: Final = (
    b"key={{ hex .Secrets.name }}\n",
    b"a {{- raw .MarbleRun.RootCA.Cert -}} b{{/* c */}}",
    b'{{ .Secrets.name.Cert | pem }}{{ raw (index .Secrets "my-name").Private }}',
    b"{{base64 (.Previous.Secrets.name)}}{{ string (index .Previous.Secrets `other`) }}",
    b"{{ hex ( .Secrets.name ).Public }}\x00\xff{{- /* no */ -}}",
)
_WORDS: Final = (
    *(b"{{", b"}}", b"{{-", b"-}}", b" -}}", b"{{- ", b"/*", b"*/", b"{{/*", b"*/}}", b"(", b")"),
    *(b"|", b'"', b"`", b"\\", b"\\u0041", b"\n", b"\t", b" ", b".", b"..", b"index", b".Secrets"),
    *(b"\xc3\xa9", b"\xff", b"\x00", b"_", b"$x", b"if", b"range", b"len", b"printf", b"1"),
    *(b"{{" * 50, b"(" * 50, b" " * 300, b".a" * 200, b"{{hex .Secrets.name}}" * 40),
)
_SHOWN: Final = 100  # characters of a name in the written form of a call


class _Value(msgspec.Struct, frozen=True):
    private: Secret
    public: Secret
    cert: bytes


_KEY: Final = _Value(Secret(b"\0\x01key"), Secret(b"public"), b"")
_CERT: Final = _Value(Secret(b"private"), Secret(b"public"), b"cert")
_SOME: Final = {"name": _KEY, "other": _CERT, "my-name": _CERT}
_TYPES: Final = {
    "name": SecretType.PLAIN,
    "other": SecretType.CERT_ECDSA,
    "my-name": SecretType.CERT_ECDSA,
}
_VALUES: Final = Values({"RootCA": _CERT}, _SOME, _SOME)


class TemplateTarget(Target):
    """Changed templates."""

    name: ClassVar[str] = "templates"
    about: ClassVar[str] = "templates of Files and Env"

    def draw(self, chance: Random) -> bytes:
        """Return one or two templates, changed."""
        text = b"".join(chance.choices(_TEXTS, k=chance.choice((1, 1, 2))))
        return mutated(text, chance, _WORDS)

    def judge(self, case: bytes) -> str:
        """Parse the text, and render it."""
        try:
            template = parse(case)
        except BadRequestError as refused:
            return f"refused: {refused.message.partition(', line')[0]}"
        if b"{{" not in case and b"".join(_literals(template)) != case:
            raise FindingError("text without an action was changed")
        for call in filter(_is_shown_whole, template.calls):
            if parse(b"{{ %s }}" % str(call).encode()).calls != (call,):
                raise FindingError("the written form of a call is read as a different call")
        if not all(map(_can_work, template.calls)):
            return "refused: by the rules"
        try:
            template.render(_VALUES)
        except MissingValueError:
            return "accepted: a value is missing"
        except BadRequestError:
            return "accepted: a zero byte"
        return "accepted: rendered"


def _can_work(call: TemplateCall) -> bool:
    """Return whether the rules of manifests accept this call in a file or a variable."""
    problems = (call_problem(call, in_env=in_env, types=_TYPES) for in_env in (False, True))
    return None in problems


def _is_shown_whole(call: TemplateCall) -> bool:
    """Return whether the parser can read ``str(call)``. ``str`` cuts a long name for people."""
    return len(call.name) <= _SHOWN and (call.name.isascii() or not call.name.isidentifier())


def _literals(template: Template) -> list[bytes]:
    return [part for part in template.parts if not isinstance(part, TemplateCall)]
