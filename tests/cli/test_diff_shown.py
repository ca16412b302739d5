"""How the differences of two manifests look to people."""

import json
from pathlib import Path

from support.process.command import run

_ID = "0" * 64
_OLD = {
    "Packages": {"app": {"UniqueID": _ID}},
    "Marbles": {"web": {"Package": "app"}},
    "Secrets": {"note": {"Type": "plain", "UserDefined": True}},
}
_NEW = {
    "Packages": {"app": {"UniqueID": _ID}},
    "Marbles": {"web": {"Package": "app", "MaxActivations": 2}},
    "Secrets": {"my key": {"Type": "symmetric-key", "Size": 128, "Shared": True}},
    "Config": {"RotateRootSecret": True},
}


def test_a_diff_has_signs_a_summary_and_its_dangers_last(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(json.dumps(_OLD))
    (tmp_path / "new.json").write_text(json.dumps(_NEW))

    ended = run("manifest", "diff", "old.json", "new.json", folder=tmp_path)

    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        "  Marbles",
        "    ~ web.MaxActivations: 0 -> 2",
        "  Secrets",
        '    + ["my key"]',
        '    + ["my key"].Type: "symmetric-key"',
        '    + ["my key"].Size: 128',
        '    + ["my key"].Shared: true',
        "    - note",
        "  Config",
        "    ~ RotateRootSecret: false -> true",
        "summary: 1 to add, 2 to change, 1 to remove",
        "DANGER: this cannot be undone",
        '  ! secret "note": an uploaded value is lost by an update to this manifest',
    ]
