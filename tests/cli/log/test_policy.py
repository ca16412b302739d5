"""``keyhouse log policy check``."""

import json
from pathlib import Path

from support.cosigner import Cosigner
from support.process.command_tree import typed

SIGNERS = [Cosigner.ed25519("a.example/w"), Cosigner.ed25519("b.example/w"), Cosigner.mldsa44("c")]
LINES = "".join(
    f"witness {name} {each.verifier} https://{name}.example\n"
    for name, each in zip("ABC", SIGNERS, strict=True)
)


def written(folder: Path, text: str) -> str:
    (folder / "policy").write_text(text)
    return str(folder / "policy")


def test_a_policy_is_shown_with_what_it_bears(tmp_path: Path) -> None:
    ended = typed(
        "log", "policy", "check", written(tmp_path, f"{LINES}group Q all A B C\nquorum Q")
    )

    assert ended.exit_code == 0
    rows = [line.split() for line in ended.stdout.splitlines()]
    assert rows[1:4] == [
        ["A", "a.example/w", "Ed25519", "https://A.example"],
        ["B", "b.example/w", "Ed25519", "https://B.example"],
        ["C", "c", "ML-DSA-44", "https://C.example"],
    ]
    assert [" ".join(row) for row in rows[5:]] == [
        "quorum 3 of A, B, C",
        "liars borne 2",
        "outages borne 0",
    ]


def test_a_policy_that_allows_a_fork_says_so(tmp_path: Path) -> None:
    text = f"{LINES}group X any B C\ngroup Q any A X\nquorum Q\n"
    file = written(tmp_path, text)

    shown = typed("log", "policy", "check", file).stdout
    found = json.loads(typed("log", "policy", "check", file, "--json").stdout)

    assert "even if no witness lies" in shown
    assert found == {
        "witnesses": [
            {"name": name, "key": str(each.verifier), "url": f"https://{name}.example"}
            for name, each in zip("ABC", SIGNERS, strict=True)
        ],
        "quorum": "1 of A, (1 of B, C)",
        "liarsBorne": -1,
        "outagesBorne": 2,
    }


def test_what_is_no_policy_is_refused_with_its_line(tmp_path: Path) -> None:
    ended = typed("log", "policy", "check", written(tmp_path, f"{LINES}quorum D\n"))

    assert ended.exit_code == 1
    assert "line 4 of the policy: " in ended.stderr
    assert "'D'" in ended.stderr
