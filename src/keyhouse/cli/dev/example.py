"""Programs beside a development coordinator: the services of the example, and the console.

The simulated platform's package has the programs and the manifest. A launcher starts each service
as a workload with its own identity. The launcher receives the simulated identity from a file.
"""

import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from keyhouse.cli.dev.coordinator import RunningCoordinator, can_listen, process_below
from keyhouse.cli.dev.folder import Folder

_HERE: Final = "127.0.0.1"
_ORDERS: Final = 8443  # usual ports
_STOCK: Final = 8444


def shop() -> Path:
    """Return the directory of the example: a manifest, programs, and their simulated identities."""
    [point, *_] = entry_points(group="keyhouse.examples", name="ordering")
    folder: Path = point.load()
    return folder


@contextmanager
def services(folder: Folder, serving: RunningCoordinator) -> Iterator[str]:
    """Run both services of the example during the block; yield the address for orders, HOST:PORT.

    The services join the coordinator ``serving``, and their output becomes entries of its log
    queue. ``folder`` receives their files.
    """
    orders, stock = (str(_port(usual)) for usual in (_ORDERS, _STOCK))
    with ExitStack() as ends:
        for name, names, ports in (
            ("stock", "stock.example.com", (stock,)),
            ("orders", "orders.example.com,localhost", (orders, stock)),
        ):
            place = folder.path / name
            place.mkdir(mode=0o700, exist_ok=True)

            def handle_line(line: bytes, name: str = name) -> None:
                if line:
                    text = line.decode("utf-8", errors="replace").rstrip()
                    serving.log_queue.put({"service": name, "text": text})

            words = [*_launching(name, names, folder, serving), *ports]
            ends.enter_context(process_below(words, handle_line, place))
        yield f"localhost:{orders}"


@contextmanager
def console_of(context: str, serving: RunningCoordinator) -> Iterator[None]:
    """Run the console during the block; ``context`` is the name of its context.

    The output of the console becomes entries of the log queue of the coordinator ``serving``.
    """

    def handle_line(line: bytes) -> None:
        if line:
            serving.log_queue.put({"service": "console", "text": line.decode().rstrip()})

    words = [sys.executable, "-I", "-B", "-m", "keyhouse.cli", "console", "--context", context]
    with process_below(words, handle_line):
        yield


def _launching(name: str, names: str, folder: Folder, serving: RunningCoordinator) -> list[str]:
    programs = shop()
    return [
        *(sys.executable, "-I", "-B", "-m", "keyhouse.cli", "run"),
        *("--coordinator", serving.workload, "--type", name, "--dns-names", names),
        *("--root-certificate", str(folder.root.absolute())),
        *("--platform", "simulation", "--simulated-machine", str(folder.state.absolute())),
        *("--simulated-identity", str(programs / f"{name}.enclave.json")),
        *("--", sys.executable, str(programs / "shop" / f"{name}.py")),
    ]


def _port(usual: int) -> int:
    """Return the port number ``usual``, or a free port if a program listens on ``usual``."""
    if can_listen(_HERE, usual):
        return usual
    with socket.create_server((_HERE, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
