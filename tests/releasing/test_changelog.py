"""A release moves the fragments of the changelog into the section of its version."""

from pathlib import Path

import pytest
from releasing.changelog import assemble, fragments
from support.distributions import ROOT


def _tree(tmp_path: Path, changelog: str) -> Path:
    folder = tmp_path / "changelog.d"
    folder.mkdir()
    (tmp_path / "CHANGELOG.md").write_text(changelog, encoding="utf-8")
    (folder / "README.md").write_text("# Fragments\n", encoding="utf-8")
    (folder / "7.fixed.md").write_text("A corrected\nfault.\n", encoding="utf-8")
    (folder / "+words.security.md").write_text("A closed hole.\n", encoding="utf-8")
    return tmp_path


def test_the_unreleased_section_keeps_its_text_and_gets_the_fragments(tmp_path: Path) -> None:
    tree = _tree(tmp_path, "# Changelog\n\n## 0.1.0 (not released yet)\n\nThe first.\n")
    section = assemble(tree, "0.1.0", "2026-11-24")
    expected = (
        "## 0.1.0 (2026-11-24)\n\nThe first.\n\n"
        "**Security**\n\n- A closed hole.\n\n**Fixed**\n\n- A corrected fault.\n"
    )
    assert section == expected
    assert (tree / "CHANGELOG.md").read_text("utf-8") == f"# Changelog\n\n{expected}"
    assert [file.name for file in (tree / "changelog.d").iterdir()] == ["README.md"]


def test_a_later_version_gets_a_section_above_the_earlier(tmp_path: Path) -> None:
    earlier = "## 0.1.0 (2026-11-24)\n\nThe first.\n"
    tree = _tree(tmp_path, f"# Changelog\n\nWords.\n\n{earlier}")
    section = assemble(tree, "0.2.0", "2026-12-01")
    whole = (tree / "CHANGELOG.md").read_text("utf-8")
    assert whole == f"# Changelog\n\nWords.\n\n{section}\n{earlier}"


def test_the_steps_of_users_come_first(tmp_path: Path) -> None:
    tree = _tree(tmp_path, "# Changelog\n")
    (tree / "changelog.d" / "8.migration.md").write_text("Make a backup.\n", encoding="utf-8")
    section = assemble(tree, "0.2.0", "2026-12-01")
    begin = "## 0.2.0 (2026-12-01)\n\n**Migration**\n\n- Make a backup.\n\n**Security**\n"
    assert section.startswith(begin)


def test_a_released_version_is_refused(tmp_path: Path) -> None:
    tree = _tree(tmp_path, "# Changelog\n\n## 0.1.0 (2026-11-24)\n\nThe first.\n")
    with pytest.raises(ValueError, match=r"section 0\.1\.0"):
        assemble(tree, "0.1.0", "2026-12-01")


def test_every_fragment_of_this_tree_has_a_kind() -> None:
    kinds = {"migration", "security", "added", "changed", "fixed", "removed"}
    assert fragments(ROOT).keys() == kinds
