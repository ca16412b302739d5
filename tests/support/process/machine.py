"""A state directory that moves to another simulated machine, of the same vendor."""

import shutil
from pathlib import Path
from tempfile import mkdtemp

from keyhouse_simulation import add_machine


def lose_the_machine(data: Path) -> None:
    """Leave the state in ``data`` to a machine that cannot unseal what the one before has sealed.

    Quotes of both verify under one root, as those of two real machines.
    """
    beside = Path(mkdtemp(dir=data.parent))
    (data / "simulation").rename(beside / "simulation")
    add_machine(data / "simulation", beside / "simulation")
    shutil.rmtree(beside)
