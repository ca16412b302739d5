"""A manifest to begin with: from flags, or asked for; it passes the check."""

import json
import os
import pty
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from support.process.command import Ended, run
from support.process.start import start
from support.samples.deployment import user
from support.samples.fixed_keys import unused_rsa_key

from keyhouse.base.errors import KeyhouseError
from keyhouse.cli.manifest.template_parts import PartUnreadableError, parts_of, starting_manifest
from keyhouse.manifest.check import check
from keyhouse.manifest.source.yaml_text import read_yaml

pytestmark = pytest.mark.acceptance

_ID = "ab" * 32
_SIGNED = f"signer:{_ID},product:1,version:2"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A directory with alice's certificate (and key), and a recovery key."""
    alice = user("alice")
    (tmp_path / "alice.pem").write_bytes(alice.key_pem + alice.pem)
    key = unused_rsa_key().public_key()
    (tmp_path / "key.pem").write_bytes(
        key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    return tmp_path


def test_parts_from_flags_make_a_manifest_that_passes(files: Path) -> None:
    words = ["--package", f"app={_ID}", "--package", f"db={_SIGNED}", "--marble", "web=app"]
    words += ["--secret", "token=symmetric-key:128", "--secret", "note=plain"]
    words += ["--secret", "site=cert-ecdsa", "--secret", "old=cert-rsa:3072"]
    words += ["--user", "alice=alice.pem", "--recovery-key", "carol=key.pem"]

    ended = run("manifest", "template", *words, folder=files)

    assert (ended.code, ended.err) == (
        0,
        "next: edit the manifest, then keyhouse manifest check FILE\n",
    )
    assert "PRIVATE KEY" not in ended.out
    made = run("manifest", "check", "-", stdin=ended.out.encode())
    assert made.code == 0, made.err
    as_json = run("manifest", "template", *words, "--format", "json", folder=files)
    assert json.loads(as_json.out) == read_yaml(ended.out.encode()).tree


def test_the_output_is_a_new_file(files: Path) -> None:
    words = ("manifest", "template", "--package", f"app={_ID}", "--marble", "web", "-o", "m.yaml")

    ended = run(*words, folder=files)

    assert ended == Ended(0, "", "next: edit the manifest, then keyhouse manifest check m.yaml\n")
    assert run("manifest", "check", "m.yaml", folder=files).code == 0
    again = run(*words, folder=files)
    assert again.code == 1
    assert "already exists" in again.err


def test_nobody_is_asked_without_a_terminal() -> None:
    ended = run("manifest", "template")

    assert (ended.code, ended.out) == (1, "")
    assert "is not a terminal" in ended.err


def test_on_a_terminal_it_asks_again_until_an_answer_is_right(files: Path) -> None:
    answers = ["", "no hex", _ID, "", "worker", "", "token", "strange", "symmetric-key", ""]
    answers += ["alice", "none.pem", "alice.pem", "", ""]
    ours, theirs = pty.openpty()
    with (
        os.fdopen(ours, "r+b", buffering=0) as terminal,
        os.fdopen(theirs, "r+b", buffering=0) as stdin,
        (files / "out").open("wb") as output,
        (files / "errors").open("wb") as errors,
    ):
        terminal.write("".join(f"{each}\n" for each in answers).encode())
        process = start(
            ("manifest", "template"),
            stdin=stdin,
            output=output,
            errors=errors,
            environment={},
            folder=files,
        )
        code = process.wait(60)

    said = (files / "errors").read_text()
    assert code == 0, said
    assert said.count("error: ") == 3
    made = check(
        json.dumps(read_yaml((files / "out").read_bytes()).tree).encode(),
        now=datetime.now(UTC),
    ).manifest
    assert set(made.marbles) == {"web", "worker"}
    assert (set(made.users), set(made.secrets)) == ({"alice"}, {"token"})


@pytest.mark.parametrize(
    ("option", "text", "problem"),
    [
        ("packages", "app", '--package "app" is not NAME='),
        ("packages", "app=00", '"00" is neither a UniqueID nor'),
        ("packages", f"app=signer:00,product:1,version:{_ID}", "neither a UniqueID nor"),
        ("packages", f"app=signer:{_ID},product:{'9' * 5000},version:1", "neither a UniqueID nor"),
        ("secrets", "a=aes", '"aes" is not a type of secret'),
        ("users", "alice=nowhere.pem", "cannot read nowhere.pem"),
        ("users", f"alice={__file__}", "has no PEM block CERTIFICATE"),
    ],
)
def test_a_part_that_is_typed_wrong_is_named(option: str, text: str, problem: str) -> None:
    given: dict[str, list[str]] = {
        name: [] for name in ("packages", "marbles", "users", "secrets", "recovery_keys")
    }
    given[option] = [text]

    with pytest.raises(KeyhouseError, match=problem):
        parts_of(**given)


def test_a_name_that_comes_twice_is_refused() -> None:
    with pytest.raises(PartUnreadableError, match="'a' twice"):
        parts_of([f"a={_ID}", f"a={_ID}"], [], [], [], [])


def test_sections_without_parts_are_left_out() -> None:
    assert starting_manifest(parts_of([f"a={_ID}"], ["web"], [], [], [])) == {
        "Packages": {"a": {"UniqueID": _ID}},
        "Marbles": {"web": {"Package": "a"}},
    }
