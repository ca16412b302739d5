"""A cluster for the walks: one coordinator on the simulated platform, and its workloads."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Self

from examples.demo.calls import Caller
from examples.demo.ports import free_port
from examples.demo.process import CoordinatorProcess
from examples.demo.screen import Screen, UnexpectedError
from examples.demo.shell import Done, Shell, typed
from examples.demo.stage import Stage
from examples.workload import Workload
from keyhouse.base.errors import KeyhouseError

__all__ = ["Cluster", "cluster"]

_STATE: Final = "state"


class Cluster:
    """What the steps of an example share. Leaving the context ends every process."""

    def __init__(self, stage: Stage) -> None:
        self.stage: Final = stage
        self.screen: Final = stage.screen
        self.folder: Final = stage.shell.folder
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def start_coordinator(self) -> None:
        """Start it, verify its quote, write down its root certificate, set manifest.json."""
        coordinator = self.stage.coordinator
        self.screen.command(typed(coordinator.words) + " &")
        self._ends.callback(coordinator.stop)
        coordinator.start()
        address, simulation = self.stage.address, f"{_STATE}/simulation"
        self.stage.keyhouse(
            *("manifest", "set", "manifest.json", address),
            *("--attestation", f"{simulation}/attestation.json"),
            *("--simulation-root", f"{simulation}/root.pem"),
        )
        self.stage.command(typed(["python", "pin.py", address, simulation, "root.pem"]))

    def joining(self, kind: str, enclave: str, names: str = "localhost") -> tuple[str, ...]:
        """Return the words that let a program join as a ``kind`` from a folder of its own.

        ``enclave``: the file that says what the simulated machine measures.
        """
        return (
            *("keyhouse", "run"),
            *("--coordinator", f"127.0.0.1:{self.stage.coordinator.mesh_port}"),
            *("--root-certificate", "../root.pem"),
            *("--type", kind, "--dns-names", names),
            *("--platform", "simulation", "--simulated-machine", f"../{_STATE}"),
            *("--simulated-identity", f"../{enclave}"),
            "--",
        )

    def launch(self, name: str, *words: str, until: str) -> Workload:
        """Start ``words`` in the new folder ``name``; return once the program prints ``until``."""
        line = self._placed(name, words)
        self.screen.command(f"{line} \\\n    > {name}.log 2>&1 &")
        workload = Workload(self.stage.shell, f"{name}.log", line)
        self._ends.callback(workload.stop)
        workload.wait_for(until)
        return workload

    def run(self, name: str, *words: str) -> Done:
        """Show ``words``, which do what they are for in the folder ``name``, and end."""
        return self.stage.command(self._placed(name, words))

    def refused(self, name: str, *words: str, code: int = 1) -> str:
        """Show ``words``, refused in the folder ``name``; return what they say about it."""
        return self.stage.command(self._placed(name, words), code=code).errors

    def _placed(self, name: str, words: Sequence[str]) -> str:
        """Return the line that runs ``words`` in the folder ``name``, which is made if needed."""
        if not (self.folder / name).exists():
            self.stage.command(f"mkdir {name}")
        return typed(["env", "-C", name, *words])


@contextmanager
def cluster(screen: Screen, folder: Path, *sources: Path) -> Iterator[Cluster]:
    """Copy the files of an example, in ``sources``, to the new ``folder``, and play there.

    Raises ``UnexpectedError``, with the end of the logs, if anything is not as the steps claim.
    """
    left_out = shutil.ignore_patterns("__*__*", "run", "*.md")
    for source in sources:
        shutil.copytree(source, folder, ignore=left_out, dirs_exist_ok=True)
    shell = Shell(folder)
    shutil.copy(shell.script("pin.py"), folder)
    port = free_port()
    stage = Stage(screen, shell, Caller(shell, port), CoordinatorProcess(shell, port, _STATE))
    screen.command(f"cd {folder}")
    with Cluster(stage) as found:
        try:
            yield found
        except (UnexpectedError, KeyhouseError) as problem:
            logs = "\n".join(_ends_of(folder))
            raise UnexpectedError(f"{problem}\n\nThe logs end:\n{logs}") from problem


def _ends_of(folder: Path) -> Iterator[str]:
    for log in sorted(folder.glob("*.log")):
        yield f"{log.name}: {log.read_text(encoding='utf-8', errors='replace')[-600:].strip()}"
