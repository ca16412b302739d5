"""What a mistake in the words of a command is answered with: what is wrong, what may be meant."""

import json

import pytest
from support.process.command_tree import typed

MISTAKES = [
    ("statsu", "unknown command statsu", "did you mean status?"),
    ("manifest chek m.json", "unknown command chek", "did you mean check?"),
    ("zzzz", "unknown command zzzz", "keyhouse --help lists commands and options"),
    ("status --attestatoin a", "unknown option --attestatoin", "did you mean --attestation?"),
    (
        "status --insecur",
        "unknown option --insecur",
        "keyhouse status --help lists commands and options",
    ),
    ("status -x", "unknown option -x", "keyhouse status --help lists commands and options"),
    ("manifest template --format ymal", "--format: unknown value ymal", "did you mean yaml?"),
    ("manifest template --format x", "--format: unknown value x", "known are yaml, json"),
    ("collateral fetch --tee x", "--tee: unknown value x", "known are sgx, tdx"),
    ("completion BASH", "SHELL: unknown value BASH", "did you mean bash?"),
    ("manifest check", "FILE is missing", "keyhouse manifest check [OPTIONS] FILE"),
    (
        "status h --attestation",
        "--attestation needs a value",
        "--attestation FILE",
    ),
    (
        "status h --json=1",
        "--json takes no value",
        "keyhouse status --help lists commands and options",
    ),
    (
        "manifest schema more",
        "unexpected argument more",
        "keyhouse manifest schema [OPTIONS]",
    ),
    (
        "status h --timeout soon",
        "--timeout: invalid value soon",
        "a whole number from 1 to 86400",
    ),
    (
        "status h --timeout 0",
        "--timeout: invalid value 0",
        "a whole number from 1 to 86400",
    ),
    (
        "workload list --interval 1e3",
        "--interval: invalid value 1e3",
        "a whole number from 1 to 3600",
    ),
    ("collateral fetch --tee", "--tee needs a value", "--tee sgx|tdx"),
    (
        "evidence proof a b c -o p",
        "3 words, expected at most 2",
        "keyhouse evidence proof HOST INDEX -o FILE",
    ),
    ("log mirror a b c", "3 words, expected at most 2", "keyhouse log mirror HOST DIR"),
    ("evidence verify --root f", "unknown option --root", "did you mean --root-fingerprint?"),
    ("stat h", "unknown command stat", "did you mean status?"),
    (
        "status --context=",
        "--context: the value is empty: omit it for the context in use",
        "keyhouse status --help lists commands and options",
    ),
]


@pytest.mark.parametrize(("words", "message", "hint"), MISTAKES, ids=[case[0] for case in MISTAKES])
def test_mistake_is_named_with_what_can_be_typed(words: str, message: str, hint: str) -> None:
    ended = typed(*words.split())

    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr == f"error: {message}\nhint: {hint}\n"


@pytest.mark.parametrize(("words", "message", "hint"), MISTAKES, ids=[case[0] for case in MISTAKES])
def test_mistake_is_one_object_if_that_was_asked_for(words: str, message: str, hint: str) -> None:
    first, *others = words.split()
    ended = typed(first, *others[:1], "--json", *others[1:])

    assert (ended.exit_code, ended.stdout) == (2, "")
    found = json.loads(ended.stderr)["error"]
    assert found["code"] == "usage"
    assert (found["message"], found["hint"]) == (message, hint)


@pytest.mark.parametrize("words", ["", "manifest", "manifest update", "recover"])
def test_a_group_alone_prints_its_help_and_ends_with_2(words: str) -> None:
    ended = typed(*words.split())

    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr == typed(*words.split(), "--help").stdout
