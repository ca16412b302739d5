"""Another simulated machine: of the same vendor, with keys of its own, and other code if wanted."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.process.command_tree import typed

from keyhouse.attestation import SealPolicy, Verifier, open_platform
from keyhouse_simulation import COORDINATOR, open_platform as open_machine

OTHER = "ab" * 32


@pytest.mark.parametrize(
    ("words", "code"), [((), COORDINATOR.unique_id.hex()), (("--unique-id", OTHER), OTHER)]
)
def test_both_machines_verify_each_other_and_open_nothing_of_each_other(
    tmp_path: Path, words: tuple[str, ...], code: str
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    first = open_machine(one / "simulation")

    made = typed("dev-machine", str(two), "--beside", str(one), *words, "--json")

    assert json.loads(made.stdout)["UniqueID"] == code
    second = open_platform("simulation", two)
    quote, now = second.quote(bytes(64)), datetime.now(UTC)
    assert Verifier(first.root_ca).verify(quote, first.collateral, now).mrenclave.hex() == code
    for policy in SealPolicy:
        assert first.sealing_key(policy) != second.sealing_key(policy)


@pytest.mark.parametrize(
    ("words", "exit_code", "said"),
    [
        (("two", "--beside", "none"), 1, "there is no simulated machine in"),
        (("one", "--beside", "one"), 1, "already has a simulated machine"),
        (("two", "--beside", "one", "--unique-id", "ab"), 2, "is not a UniqueID"),
        (("two", "--beside", "one", "--unique-id", "xy" * 32), 2, "is not a UniqueID"),
    ],
    ids=["nothing beside", "twice", "short", "no hex digits"],
)
def test_what_cannot_be_made_is_named_and_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    exit_code: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    open_machine(Path("one/simulation"))
    before = sorted(tmp_path.rglob("*"))

    ended = typed("dev-machine", *words)

    assert ended.exit_code == exit_code
    assert said in ended.stderr
    assert sorted(tmp_path.rglob("*")) == before
