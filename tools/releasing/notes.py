"""Write the notes of a release: changes, outputs, and missing outputs."""

from collections.abc import Sequence
from pathlib import Path

from releasing.build import Missing


def write_notes(
    folder: Path, version: str, commit: str, section: str, missing: Sequence[Missing]
) -> None:
    """Write the notes beside the outputs in ``folder``."""
    _, _, changes = section.partition("\n\n")
    files = "".join(
        f"- `{path.name}` ({path.stat().st_size:,} bytes)\n" for path in sorted(folder.iterdir())
    )
    absent = "".join(f"- {each.output}: {each.reason}\n" for each in missing)
    text = (
        f"# Keyhouse {version}\n\nSource: commit {commit}.\n"
        "`docs/how-to/verify-a-release.md` in the sources describes the verification.\n\n"
        f"## Changes\n\n{changes}\n## Outputs\n\n{files}"
        f"\n## Missing outputs\n\n{absent or 'None.'}\n"
    )
    (folder / f"keyhouse-{version}.notes.md").write_text(text, encoding="utf-8")
