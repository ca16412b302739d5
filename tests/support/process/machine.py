"""Moves a state directory to another simulated machine of the same vendor."""

import shutil
from pathlib import Path
from tempfile import mkdtemp

from keyhouse_simulation import add_machine


def lose_the_machine(data: Path) -> None:
    """Give the state in ``data`` a new machine that cannot unseal the former machine's seals.

    Quotes of both machines verify under the same root, as quotes of two real machines do.
    """
    beside = Path(mkdtemp(dir=data.parent))
    (data / "simulation").rename(beside / "simulation")
    add_machine(data / "simulation", beside / "simulation")
    shutil.rmtree(beside)
