"""Commands on a directory of an enclave, whose lock nobody sees: they ask whether it is stopped."""

import asyncio
from pathlib import Path

import pytest
from support.process.command_tree import typed
from support.process.terminal import on_a_terminal
from support.samples.state import DEK, STORE_ID, open_storage


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The directory of a coordinator on the platform gramine."""

    async def establish() -> None:
        storage = await open_storage(tmp_path / "state", platform_kind="gramine")
        await storage.establish(
            store_id=STORE_ID, dek=DEK, base=[b"base"], policy="ProductKey", recovery_index=b"index"
        )
        await storage.close()

    asyncio.run(establish())
    return tmp_path / "state"


@pytest.mark.parametrize("words", [("verify",), ("restore", "20260301T120000Z-0123abcd")])
def test_offline_commands_are_refused_unless_the_user_says_that_it_is_stopped(
    state: Path, words: tuple[str, ...]
) -> None:
    command = ("store", words[0], str(state), *words[1:])
    refused = typed(*command)
    assert refused.exit_code == 1
    assert "whether a coordinator uses it cannot be seen" in refused.stderr
    assert "--stopped" in refused.stderr
    said = typed(*command, "--stopped")
    assert "cannot be seen" not in said.stderr
    assert ("ok" in said.stdout) == (words == ("verify",))


@pytest.mark.parametrize(
    ("keys", "does"), [("y\n", True), ("n\n", False), ("\n", False), ("\x04", False)]
)
def test_a_person_is_asked_and_only_yes_continues(state: Path, keys: str, *, does: bool) -> None:
    code, shown = on_a_terminal("store", "verify", str(state), environment={}, keys=keys)
    assert f"{state}: whether a coordinator uses it cannot be seen" in shown
    assert "Is the coordinator stopped? [y/N]: " in shown
    assert (code == 0, "journal.db      ok" in shown) == (does, does), shown
    if keys.endswith("\n"):
        assert ("nothing was done" in shown) != does


def test_a_copy_that_no_coordinator_has_used_is_not_asked_about(state: Path) -> None:
    (state / "lock").unlink()
    assert typed("store", "verify", str(state)).exit_code == 0


def test_the_doctor_says_that_it_sees_nobody(state: Path) -> None:
    shown = typed("doctor", "--data-dir", str(state)).output
    assert "whether a coordinator uses it cannot be seen" in shown
