"""What a mistake in the words of a command is answered with: what is wrong, what may be meant."""

import json

import pytest
from support.process.command_tree import typed

MISTAKES = [
    ("statsu", "unknown command statsu", "did you mean status?"),
    ("manifest chek m.json", "unknown command chek", "did you mean check?"),
    ("zzzz", "unknown command zzzz", "see keyhouse --help"),
    ("status --attestatoin a", "unknown option --attestatoin", "did you mean --attestation?"),
    (
        "status --insecur",
        "unknown option --insecur",
        "see keyhouse status --help",
    ),
    ("status -x", "unknown option -x", "see keyhouse status --help"),
    (
        "manifest template --format ymal",
        "--format has the unknown value ymal",
        "did you mean yaml?",
    ),
    ("manifest template --format x", "--format has the unknown value x", "use one of yaml, json"),
    ("collateral fetch --tee x", "--tee has the unknown value x", "use one of sgx, tdx"),
    ("completion BASH", "SHELL has the unknown value BASH", "did you mean bash?"),
    ("manifest check", "FILE is missing", "use: keyhouse manifest check [OPTIONS] FILE"),
    (
        "status h --attestation",
        "--attestation needs a value",
        "pass --attestation FILE",
    ),
    (
        "status h --json=1",
        "--json takes no value",
        "pass --json without a value",
    ),
    (
        "manifest schema more",
        "unexpected argument more",
        "use: keyhouse manifest schema [OPTIONS]",
    ),
    (
        "status h --timeout soon",
        "--timeout has the invalid value soon",
        "pass a whole number from 1 to 86400",
    ),
    (
        "status h --timeout 0",
        "--timeout has the invalid value 0",
        "pass a whole number from 1 to 86400",
    ),
    (
        "workload list --interval 1e3",
        "--interval has the invalid value 1e3",
        "pass a whole number from 1 to 3600",
    ),
    ("collateral fetch --tee", "--tee needs a value", "pass --tee sgx|tdx"),
    (
        "evidence proof a b c -o p",
        "the command line has 3 words, expected at most 2",
        "use: keyhouse evidence proof HOST INDEX -o FILE",
    ),
    (
        "log mirror a b c",
        "the command line has 3 words, expected at most 2",
        "use: keyhouse log mirror HOST DIR",
    ),
    ("evidence verify --root f", "unknown option --root", "did you mean --root-fingerprint?"),
    ("stat h", "unknown command stat", "did you mean status?"),
    (
        "status --context=",
        "--context: the value is empty; omit the option to use the context in use",
        "see keyhouse status --help",
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
