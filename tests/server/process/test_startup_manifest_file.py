"""What the file of a startup manifest can be."""

from pathlib import Path

import pytest

from keyhouse.server.process.startup_manifest import StartupRefusedError, read_startup_manifest


@pytest.mark.parametrize("name", ["manifest.yaml", "manifest.YML"])
def test_yaml_is_refused_with_the_command_that_converts_it(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("{}")

    with pytest.raises(StartupRefusedError, match="YAML") as refused:
        read_startup_manifest(path, None)

    assert "keyhouse manifest convert" in refused.value.hint
