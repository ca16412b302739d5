"""What the page on editors says to save can be read by those editors."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import yaml

_PAGE = (Path(__file__).parent.parent.parent / "docs/how-to/editor.md").read_text("utf-8")


def block(language: str) -> str:
    """Return the only block in ``language``."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", _PAGE, re.DOTALL | re.MULTILINE)
    return str(found)


def test_settings_of_visual_studio_code_cover_both_languages() -> None:
    settings = json.loads(block("json"))

    (of_json,) = settings["json.schemas"]
    ((schema, patterns),) = settings["yaml.schemas"].items()
    assert of_json["url"] == schema == "./manifest.schema.json"
    assert {name.rpartition(".")[2] for name in of_json["fileMatch"]} == {"json"}
    assert {name.rpartition(".")[2] for name in patterns} == {"yaml"}


def test_settings_of_jetbrains_cover_both_languages() -> None:
    options = ET.fromstring(block("xml")).iter("option")  # noqa: S314 our own page

    paths = {each.get("value") for each in options if each.get("name") == "path"}
    assert paths == {"*manifest.json", "*manifest.yaml"}


def test_the_line_for_yaml_is_a_comment_that_is_not_uploaded() -> None:
    assert yaml.safe_load(block("yaml")) is None
