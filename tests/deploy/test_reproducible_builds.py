"""Two builds in different folders, times, time zones and languages are equal, bit by bit."""

import sys
from pathlib import Path

import pytest
from support.distributions import ROOT
from support.host.release import build_in, copy_tree

pytestmark = pytest.mark.acceptance

_LIST = (
    "import sys; sys.dont_write_bytecode = True; from pathlib import Path;"
    " from support.pages.trusted_code import PROGRAMS, section;"
    " Path(sys.argv[1]).write_text(''.join(map(section, PROGRAMS)), encoding='utf-8')"
)


def test_wheels_sources_and_the_list_of_trusted_code_are_reproducible(tmp_path: Path) -> None:
    from releasing.build import differences

    tree = copy_tree(tmp_path / "original")
    folders = []
    for number in range(2):
        build = build_in(number, tree, tmp_path / "work")
        build.wheels_and_sources()
        places = f"{ROOT / 'tests'}:{build.tree / 'src'}"
        target = build.folder / "trusted-code"
        build.around.run([sys.executable, "-c", _LIST, target], build.tree, PYTHONPATH=places)
        folders.append(build.folder)
    names = {path.name for path in folders[0].iterdir()}
    assert len([name for name in names if name.endswith(".whl")]) == 5
    assert {"trusted-code"} < names
    assert list(differences(*folders)) == []
