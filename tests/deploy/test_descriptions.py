"""The metadata of each wheel renders on an index: types, texts and links."""

import re
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest
from support.distributions import TABLE
from support.installed import build_wheels


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Message]:
    """The metadata of each distribution."""
    wheels = build_wheels(tmp_path_factory.mktemp("wheels"))
    return {name: _metadata(path) for name, path in wheels.items()}


def _metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith("/METADATA"))
        return message_from_bytes(archive.read(name))


def _text(message: Message) -> str:
    raw = message.get_payload(decode=True)
    assert isinstance(raw, bytes)
    return raw.decode("utf-8")


@pytest.mark.parametrize("name", TABLE.rows)
def test_a_description_states_its_type_and_has_no_link_into_the_repository(
    name: str, metadata: dict[str, Message]
) -> None:
    message = metadata[name]
    assert message["Name"] == name
    assert message.get_all("Description-Content-Type") == ["text/markdown"]
    text = _text(message)
    assert len(text) > 40
    assert re.findall(r"\]\((?!https://)[^)]*\)", text) == []


def test_the_command_has_the_text_of_the_project(metadata: dict[str, Message]) -> None:
    assert _text(metadata["keyhouse"]).startswith("# Keyhouse\n")
