"""The template language, its static check, and rendering."""

import base64

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from keyhouse.base.errors import BadRequestError
from keyhouse.base.secret import Secret
from keyhouse.manifest.rules.marbles import call_problem
from keyhouse.manifest.templates import (
    MissingValueError,
    TemplateCall,
    TemplateSource,
    Values,
    parse,
)
from keyhouse.wire.secret_types import SecretType


class Value(msgspec.Struct, frozen=True):
    private: Secret
    public: Secret
    cert: bytes = b""


def value(private: bytes, public: bytes | None = None, cert: bytes = b"") -> Value:
    return Value(Secret(private), Secret(private if public is None else public), cert)


KEY = b"\x00\x01\xfe\xff"
PRIVATE, PUBLIC, CERT = b"p" * 60, b"q" * 10, b"\x30\x82" + b"c" * 70
VALUES = Values(
    marblerun={"RootCA": value(b"", b"", CERT)},
    secrets={
        "k": value(KEY),
        "text": value(b"hello"),
        "käse": value(b"x"),
        "my-name": value(PRIVATE, PUBLIC, CERT),
        'a"b': value(b"y"),
        "empty": value(b""),
    },
    previous={"k": value(b"old")},
)


def render(text: str | bytes) -> bytes:
    return parse(text if isinstance(text, bytes) else text.encode()).render(VALUES)


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("", b""),
        ("plain } text { }} with }} braces", b"plain } text { }} with }} braces"),
        ("a{{ raw .Secrets.k }}b", b"a" + KEY + b"b"),
        ("{{hex .Secrets.k}}", b"0001feff"),
        ("{{\t\n.Secrets.k\r|  hex }}", b"0001feff"),
        ("{{ hex(.Secrets.k) }}", b"0001feff"),
        ("{{ hex .Secrets.k.Private }}{{ hex .Secrets.k.Public }}", b"0001feff0001feff"),
        ("{{ base64 .Secrets.k }}", base64.b64encode(KEY)),
        ("{{ string .Secrets.text }}", b"hello"),
        ("{{ raw .Secrets.käse }}", b"x"),
        ("{{ raw .Previous.Secrets.k }}", b"old"),
        ('{{ raw (index .Secrets "my-name").Private }}', PRIVATE),
        ('{{ (index .Secrets "my-name") | raw }}', PUBLIC),
        ("{{ raw ( index .Secrets `my-name` ).Cert }}", CERT),
        ("{{ raw (.Secrets.k).Public }}", KEY),
        ('{{ raw (index .Previous.Secrets "k") }}', b"old"),
        ('{{ raw (index .Secrets "a\\"b") }}', b"y"),
        ("{{ hex .MarbleRun.RootCA.Cert }}", CERT.hex().encode()),
        ("a {{- /* } }} {{ */ -}} b", b"ab"),
        ("a {{/* comment */}} b", b"a  b"),
        ("a \t\r\n{{- raw .Secrets.text -}} \n b", b"ahellob"),
        ("a {{- raw .Secrets.text -}} {{- raw .Secrets.text }} b", b"ahellohello b"),
        ("{{ raw .Secrets.text }}}}", b"hello}}"),
        (b"\xff{{ raw .Secrets.text }}\xfe", b"\xffhello\xfe"),
    ],
)
def test_templates_are_rendered(text: str | bytes, content: bytes) -> None:
    assert render(text) == content


@pytest.mark.parametrize(
    "text",
    [
        "{{", "{{}}", "{{ }}", "{{ hex }}", "{{ .Secrets.k }}", "{{ hex .Secrets.k",
        "{{hex .Secrets.k} }", "{{-hex .Secrets.k}}", "{{hex .Secrets.k-}}", "{{{hex .Secrets.k}}",
        "{{ hex .Secrets.my-name }}", "{{ hex .Secrets }}", "{{ hex .Secrets.k.Type }}",
        "{{ hex .Secrets.k.Cert.Raw }}", "{{ hex .Secrets .k }}", "{{ hex (.Secrets.k) .Cert }}",
        "{{ hex .secrets.k }}", "{{ hex .MarbleRun.RootCA }}", "{{ hex .MarbleRun }}",
        "{{ hex .Previous.MarbleRun.RootCA.Cert }}", "{{ hex .Secrets.k | base64 }}",
        "{{ hex .Secrets.k .Secrets.k }}", '{{ hex "abc" }}', "{{ index .Secrets k }}",
        '{{ hex (index .Secrets "k" "l") }}', '{{ hex (index .MarbleRun "RootCA").Cert }}',
        '{{ hex (index .Secrets "\\x41") }}', '{{ hex (index .Secrets "\\ud800") }}',
        "{{ if .Secrets.k }}x{{ end }}", "{{ range .Secrets }}{{ end }}", "{{ printf `x` }}",
        '{{ define "x" }}{{ end }}', "{{ with .Secrets.k }}{{ end }}", "{{ $x := .Secrets.k }}",
        "{{ /* comment */ }}", "{{/* comment }}", "{{ . }}", "{{ hex . }}",
        "{{ nil }}", "{{ HEX .Secrets.k }}",
        "{{ hex ((.Secrets.k)) }}", "{{ hex .Secrets.k; }}", "{{ hex .Secrets.1 }}",
        "{{ " + "(" * 1000, b"{{ hex .Secrets.\xff }}", b'{{ hex (index .Secrets "\xff") }}',
    ],
)  # fmt: skip
def test_other_constructs_are_refused_with_what_is_supported(text: str | bytes) -> None:
    with pytest.raises(BadRequestError) as refused:
        parse(text if isinstance(text, bytes) else text.encode())
    assert "line 1, column 1" in refused.value.message
    assert "supported are pem, hex, base64, raw and string" in refused.value.hint


def test_a_refusal_names_line_and_column() -> None:
    with pytest.raises(BadRequestError) as refused:
        parse(b"ok\n  {{ hex .Secrets.k }} {{ bad }}")
    assert "line 2, column 24" in refused.value.message


def test_pem_has_lines_of_64_characters() -> None:
    text = render('{{ pem (index .Secrets "my-name").Cert }}').decode()
    body = base64.b64encode(CERT).decode()
    assert text == (
        f"-----BEGIN CERTIFICATE-----\n{body[:64]}\n{body[64:]}\n-----END CERTIFICATE-----\n"
    )
    assert render("{{ pem .Secrets.k.Private }}") == (
        b"-----BEGIN PRIVATE KEY-----\nAAH+/w==\n-----END PRIVATE KEY-----\n"
    )
    assert render('{{ pem (index .Secrets "my-name").Public }}').startswith(
        b"-----BEGIN PUBLIC KEY-----\n"
    )


@pytest.mark.parametrize(
    "text",
    ["{{ hex .Secrets.empty }}", "{{ hex .Secrets.nothing }}", "{{ hex .Previous.Secrets.text }}",
     "{{ hex .MarbleRun.MarbleCert.Cert }}", "{{ hex .Secrets.k.Cert }}"],
)  # fmt: skip
def test_a_missing_value_is_named(text: str) -> None:
    with pytest.raises(MissingValueError) as missing:
        render(text)
    assert f"{{{{ {missing.value.call} }}}}" == text


def test_a_zero_byte_is_not_a_string_and_is_not_shown() -> None:
    with pytest.raises(BadRequestError) as refused:
        render("{{ string .Secrets.k }}")
    assert "string .Secrets.k" in refused.value.message


def test_calls_of_unusual_names_are_shown_as_they_are_written() -> None:
    (call,) = parse(b'{{ pem (index .Secrets "my-name").Cert }}').calls
    assert str(call) == 'pem (index .Secrets "my-name").Cert'


@given(st.binary(max_size=60) | st.text(alphabet='{}- |()`"./*\n.Secretsindxhk', max_size=60)
       .map(str.encode))  # fmt: skip
@settings(max_examples=500)
def test_any_content_is_a_template_or_refused(data: bytes) -> None:
    try:
        template = parse(data)
    except BadRequestError:
        return
    if b"{{" not in data:
        assert template.parts == ((data,) if data else ())


TYPES = {kind.value: kind for kind in SecretType}
MEMBERS = ("", "Public", "Private", "Cert")


def allowed(function: str, kind: str, member: str, *, in_env: bool) -> bool:
    """The two tables of the manifest format, "Functions", written down once more."""
    if function == "string":
        return in_env and kind == "plain" and not member
    if function == "raw" and in_env:
        return False
    if function == "pem" and not member:
        return False
    return member != "Cert" or kind.startswith("cert-")


@pytest.mark.parametrize("in_env", [False, True])
@pytest.mark.parametrize("function", ["pem", "hex", "base64", "raw", "string"])
def test_functions_fit_places_types_and_members(function: str, *, in_env: bool) -> None:
    for kind in TYPES:
        for member in MEMBERS:
            for source in (TemplateSource.SECRETS, TemplateSource.PREVIOUS):
                call = TemplateCall(function, source, kind, member)
                problem = call_problem(call, in_env=in_env, types=TYPES)
                assert (problem is None) == allowed(function, kind, member, in_env=in_env)


@pytest.mark.parametrize("in_env", [False, True])
def test_only_the_marbles_own_certificate_has_keys(*, in_env: bool) -> None:
    names = ("RootCA", "MarbleCert", "CoordinatorRoot", "CoordinatorIntermediate")
    for name in names:
        for member in ("Cert", "Public", "Private"):
            for function in ("pem", "hex", "base64"):
                call = TemplateCall(function, TemplateSource.MARBLERUN, name, member)
                fits = member == "Cert" or name == "MarbleCert"
                assert (call_problem(call, in_env=in_env, types={}) is None) == fits
        call = TemplateCall("string", TemplateSource.MARBLERUN, name, "Cert")
        assert call_problem(call, in_env=in_env, types={}) is not None
    other = TemplateCall("hex", TemplateSource.MARBLERUN, "Root", "Cert")
    assert call_problem(other, in_env=in_env, types={}) is not None


def test_unknown_secrets_are_told() -> None:
    unknown = TemplateCall("hex", TemplateSource.SECRETS, "Plain")
    assert call_problem(unknown, in_env=False, types=TYPES) is not None
    untyped = TemplateCall("pem", TemplateSource.SECRETS, "x")
    assert call_problem(untyped, in_env=False, types={"x": None}) is None


_SPACES = st.text(" \t\r\n", max_size=3)


@given(_SPACES, _SPACES, _SPACES)
def test_spaces_within_an_action_mean_nothing(before: str, between: str, after: str) -> None:
    plain = parse(b"a{{ .Secrets.key.Private | hex }} b")
    assert parse(f"a{{{{{before}hex {between}.Secrets.key.Private{after}}}}} b".encode()) == plain
