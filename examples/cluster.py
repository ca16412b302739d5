"""A cluster for the examples: one coordinator on the simulated platform, and its workloads."""

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
    """The coordinator and the workloads of an example. Leaving the context ends every process."""

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
        """Start the coordinator, verify its quote, set manifest.json, and write root.pem."""
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
        """Return the ``keyhouse run`` words that start a program as a workload of type ``kind``.

        The words are for a subfolder of the example. The program and its arguments follow them.

        Args:
            kind: the marble type in the manifest.
            enclave: the file with the measurement of the program on the simulated machine.
            names: the DNS names in the certificate of the workload, separated by commas.
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
        """Start ``words`` in the folder ``name``; return after the program prints ``until``."""
        line = self._placed(name, words)
        self.screen.command(f"{line} \\\n    > {name}.log 2>&1 &")
        workload = Workload(self.stage.shell, f"{name}.log", line)
        self._ends.callback(workload.stop)
        workload.wait_for(until)
        return workload

    def run(self, name: str, *words: str) -> Done:
        """Show and run the command ``words`` in the folder ``name``, until the command ends."""
        return self.stage.command(self._placed(name, words))

    def refused(self, name: str, *words: str, code: int = 1) -> str:
        """Show and run a command with the exit code ``code``; return its error output."""
        return self.stage.command(self._placed(name, words), code=code).errors

    def _placed(self, name: str, words: Sequence[str]) -> str:
        """Return the line that runs ``words`` in the folder ``name``. Make a missing folder."""
        if not (self.folder / name).exists():
            self.stage.command(f"mkdir {name}")
        return typed(["env", "-C", name, *words])


@contextmanager
def cluster(screen: Screen, folder: Path, *sources: Path) -> Iterator[Cluster]:
    """Copy the files in the folders ``sources`` to the new ``folder``; yield a cluster there.

    Raises:
        UnexpectedError: a claim of a step is false. The text ends with the end of each log.
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
