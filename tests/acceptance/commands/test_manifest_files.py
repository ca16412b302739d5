"""Manifests as files, JSON or YAML: checked, converted, compared, and set."""

import json
from hashlib import sha256
from pathlib import Path

import pytest
from support.process.command import Ended, run
from support.process.server import Server
from support.samples.deployment import manifest

pytestmark = pytest.mark.acceptance

_YAML = """\
# one package, one workload
Packages:
  app:
    UniqueID: "%s"
Marbles:
  web: {Package: app}
"""
_JSON = '{"Marbles":{"web":{"Package":"app"}},"Packages":{"app":{"UniqueID":"%s"}}}'
_ID = "0" * 64


@pytest.fixture
def yaml(tmp_path: Path) -> Path:
    """A small manifest."""
    path = tmp_path / "manifest.yaml"
    path.write_text(_YAML % _ID)
    return path


def trust(server: Server) -> tuple[str, ...]:
    folder = server.data / "simulation"
    root = ("--simulation-root", str(folder / "root.pem"))
    return ("--attestation", str(folder / "attestation.json"), *root)


def found(ended: Ended) -> dict[str, object]:
    """Return the one object that was printed."""
    decoded = json.loads(ended.out)
    assert isinstance(decoded, dict)
    return decoded


def test_yaml_is_uploaded_as_one_json_text_whose_fingerprint_is_told(yaml: Path) -> None:
    raw = (_JSON % _ID).encode()
    fingerprint = sha256(raw).hexdigest()

    assert run("manifest", "convert", str(yaml)) == Ended(0, raw.decode(), "")
    assert run("manifest", "signature", str(yaml)).out == f"{fingerprint}\n"
    assert run("manifest", "check", str(yaml)).out == f"valid  {fingerprint}\n"
    assert run("manifest", "check", "-", stdin=yaml.read_bytes()).out == f"valid  {fingerprint}\n"
    assert run("manifest", "convert", "-", stdin=b' {"a" : 1}\n').out == ' {"a" : 1}\n'


def test_a_manifest_in_yaml_is_set_and_verified_and_compared(tmp_path: Path, yaml: Path) -> None:
    other = tmp_path / "other.yml"
    other.write_text(yaml.read_text().replace(_ID, "1" * 64))
    with Server(tmp_path / "data") as server:
        host = f"127.0.0.1:{server.port}"
        ended = run("manifest", "set", str(yaml), host, *trust(server), "--json")
        assert ended.code == 0, ended.err
        assert run("manifest", "get", host, *trust(server)).out == _JSON % _ID
        back = run("manifest", "get", host, *trust(server), "--yaml").out.encode()
        assert back.startswith(b"Marbles:\n  web:\n")
        again = run("manifest", "signature", "-", stdin=back)
        assert again.out.strip() == sha256((_JSON % _ID).encode()).hexdigest()
        assert run("manifest", "verify", str(yaml), host, *trust(server)).code == 0
        assert run("manifest", "verify", str(other), host, *trust(server)).code == 4

        same = run("manifest", "diff", host, str(yaml), *trust(server), "--exit-code")
        assert (same.code, same.out, same.err) == (0, "", "equal\n")
        differs = run("manifest", "diff", host, str(other), *trust(server), "--exit-code")
        assert differs.code == 1
        assert differs.out == (
            f'  Packages\n    ~ app.UniqueID: "{_ID}" -> "{"1" * 64}"\nsummary: 1 to change\n'
        )


def test_a_diff_says_which_of_the_two_is_wrong(tmp_path: Path, yaml: Path) -> None:
    (tmp_path / "wrong.json").write_text("{}")

    ended = run("manifest", "diff", str(yaml), str(tmp_path / "wrong.json"))

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"error: {tmp_path / 'wrong.json'}: ")


def test_a_diff_is_one_object_and_no_failure_unless_asked_for(tmp_path: Path, yaml: Path) -> None:
    other = tmp_path / "other.json"
    other.write_bytes(manifest())

    ended = run("manifest", "diff", str(yaml), str(other), "--json")

    assert (ended.code, ended.err) == (0, "")
    told = found(ended)
    assert told["equal"] is False
    assert told["newFingerprint"] == sha256(manifest()).hexdigest()
    changes = told["changes"]
    assert isinstance(changes, list)
    assert {"kind": "removed", "section": "Marbles", "name": "web", "field": []}.items() <= next(
        each.items() for each in changes if each["name"] == "web"
    )


def test_a_side_that_is_not_a_file_needs_to_say_who_answers_there(yaml: Path) -> None:
    ended = run("manifest", "diff", str(yaml), "coordinator:4433")

    assert ended.code == 1
    assert "coordinator:4433" in ended.err
    assert "--attestation" in ended.err


def test_a_side_that_is_not_a_file_is_named_beside_the_context(yaml: Path, tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path), "KEYHOUSE_CONTEXT": "prod"}
    assert run("context", "add", "prod", "--address", "keys.example.com", env=home).code == 0

    ended = run("manifest", "diff", str(yaml), "manifets", env=home)

    assert ended.code == 2
    assert all(each in ended.err for each in ("manifets", "'prod'", "keys.example.com"))


_LEADING_ZEROS = """\
m.yaml:2:19: error: Packages.app.UniqueID: is a number with leading zeros
     2 |   app: {UniqueID: 0001}
       |                   ^^^^
  hint: if it is text, put it between quotes
"""
_UNKNOWN = """\
m.json:2:15: error: Packages.app.Debugg: unknown field
     2 |  {"app": {    "Debugg": true}}}
       |               ^^^^^^^^
  hint: did you mean Debug?
"""
_NO_JSON = """\
m.json:2:1: error: invalid JSON: a value without quotes, or none
     2 | }
       | ^
"""


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("m.yaml", "Packages:\n  app: {UniqueID: 0001}\n", _LEADING_ZEROS),
        ("m.json", '{"Packages":\n\t{"app": {    "Debugg": true}}}', _UNKNOWN),
        ("m.json", '{"a": \n}', _NO_JSON),
        ("m.yaml", "a: [\n", "error: invalid YAML: it ends before its ] or }"),
    ],
    ids=["yaml", "json", "no json", "no yaml"],
)
def test_problems_are_shown_where_they_stand(
    tmp_path: Path, name: str, text: str, shown: str
) -> None:
    (tmp_path / name).write_text(text)

    ended = run("manifest", "check", name, folder=tmp_path)

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("error: ")
    assert shown in ended.err


def test_the_line_of_a_secret_is_not_shown(tmp_path: Path) -> None:
    text = "Secrets:\n  s: {Typ: plain, Private: c2VjcmV0}\n  t:\n    Private: [c2VjcmV0]\n"
    (tmp_path / "m.yaml").write_text(text)

    ended = run("manifest", "check", "m.yaml", folder=tmp_path)

    assert "m.yaml:2:7: error: Secrets.s.Typ: unknown field" in ended.err
    assert "m.yaml:4:5: error: Secrets.t.Private" in ended.err
    assert "c2VjcmV0" not in ended.err


def test_problems_as_json_have_their_line_and_column(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"Packages": {},\n "Foo": 1}')

    ended = run("manifest", "check", "m.json", "--json", folder=tmp_path)

    problem = json.loads(ended.out)["problems"][0]
    assert (problem["at"], problem["line"], problem["column"]) == ("Foo", 2, 2)
