"""The commands and flags of the interface's usual tool are here (wire reference, "Commands")."""

import re
from pathlib import Path

import pytest
from support.process.command_tree import below, leaves

from keyhouse.cli.commands import ROOT

_PAGE = Path(__file__).parent.parent.parent / "docs/how-to/migrate.md"

_CONNECTS = [
    "--coordinator-cert",
    "--era-config",
    "--accepted-tcb-statuses",
    "--accepted-advisories",
    "--nonce",
    "--save-sgx-quote",
]
_KEY = ["-k", "--key", "--pkcs11-config", "--pkcs11-key-id", "--pkcs11-key-label"]
_AUTH = [*_KEY, "-c", "--cert", "--pkcs11-cert-id", "--pkcs11-cert-label"]
_OUTPUT = ["-o", "--output"]
_SHARES = ["-r", "--recoverydata"]
_SIGNATURE = ["-s", "--signature"]

# Words of the usual tool, the command that they run here, its flags.
_ROWS: list[tuple[str, str, list[str]]] = [
    ("status", "status", _CONNECTS),
    ("manifest set", "manifest set", [*_CONNECTS, *_SHARES]),
    (
        "manifest get",
        "manifest get",
        [*_CONNECTS, *_OUTPUT, *_SIGNATURE, "-u", "--display-update", "--keep-cert"],
    ),
    ("manifest log", "manifest log", [*_CONNECTS, *_OUTPUT]),
    ("manifest signature", "manifest signature", []),
    ("manifest verify", "manifest verify", _CONNECTS),
    ("manifest update apply", "manifest update apply", [*_CONNECTS, *_AUTH, *_SHARES]),
    ("manifest update acknowledge", "manifest update acknowledge", [*_CONNECTS, *_AUTH, *_SHARES]),
    ("manifest update cancel", "manifest update cancel", [*_CONNECTS, *_AUTH]),
    ("manifest update get", "manifest update get", [*_CONNECTS, *_OUTPUT, "--missing"]),
    ("certificate root", "certificate root", [*_CONNECTS, *_OUTPUT]),
    ("certificate intermediate", "certificate intermediate", [*_CONNECTS, *_OUTPUT]),
    ("certificate chain", "certificate chain", [*_CONNECTS, *_OUTPUT]),
    ("secret get", "secret get", [*_CONNECTS, *_AUTH, *_OUTPUT]),
    ("secret set", "secret set", [*_CONNECTS, *_AUTH, "--from-pem", "--from-file", "--value"]),
    ("recover", "recover upload", [*_CONNECTS, *_KEY]),
    ("recover-with-signature", "recover-with-signature upload", [*_CONNECTS, *_SIGNATURE]),
    (
        "recover-with-signature public-key",
        "recover-with-signature public-key",
        [*_CONNECTS, *_OUTPUT],
    ),
    (
        "recover-with-signature encrypt-secret",
        "recover-with-signature encrypt-secret",
        [*_OUTPUT, *_KEY, "--coordinator-pub-key"],
    ),
    (
        "recover-with-signature sign-secret",
        "recover-with-signature sign-secret",
        [*_OUTPUT, *_KEY],
    ),
    ("package-info", "package-info", []),
    ("version", "version", []),
]
_NOT_HERE = ["install", "uninstall", "precheck", "check"]


@pytest.mark.parametrize(("usual", "here", "flags"), _ROWS, ids=[row[0] for row in _ROWS])
def test_command_has_the_usual_flags(usual: str, here: str, flags: list[str]) -> None:
    assert sorted(set(flags) - leaves()[here].shown) == [], usual


def test_page_has_a_row_for_each() -> None:
    rows = re.findall(r"^\| `([a-z -]+)` \|", _PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert rows == [*(usual for usual, _, _ in _ROWS), *_NOT_HERE]


def test_what_is_not_here_is_known_nevertheless() -> None:
    assert set(_NOT_HERE) <= set(below(ROOT))
    for leaf in leaves().values():
        if "--era-config" in leaf.shown:
            hidden = {"-i", "--insecure", "-n", "--namespace"}
            if leaf.words.startswith("kube "):  # these commands have a namespace
                hidden -= {"-n", "--namespace"}
            assert hidden <= leaf.flags - leaf.shown, leaf.words
