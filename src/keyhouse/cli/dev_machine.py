"""`keyhouse dev-machine`: make another simulated machine for a second coordinator."""

from pathlib import Path
from typing import Annotated, Final, Protocol, cast

import msgspec

from keyhouse.attestation.platforms.find import simulated_folder, simulation, simulation_package
from keyhouse.attestation.platforms.platform import Measurements
from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import quoted
from keyhouse.cli.output.show import show_result
from keyhouse.cli.parser import Argument, AsJson, Option, WrongUsageError, command

_UNIQUE_ID: Final = 32  # bytes of a measurement: SHA-256


@command
def dev_machine(
    directory: Annotated[Path, Argument(metavar="DIR", help="state directory for the new machine")],
    *,
    beside: Annotated[
        Path,
        Option(
            "--beside", metavar="DIR", help="state directory of an existing simulated coordinator"
        ),
    ],
    unique_id: Annotated[
        str,
        Option(
            "--unique-id",
            metavar="HEX",
            help="identity of different code on the new machine (default: the same code)",
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Make another SIMULATED machine.

    Use the command to try several coordinators on a computer. Coordinators on both machines verify
    each other's quotes. A machine cannot decrypt the sealed data of the other machine. The
    simulation protects nothing.

    Example: keyhouse dev-machine two --beside one
    """
    folder = simulated_folder(directory)
    if folder.exists():
        raise RefusedError(
            f"{quoted(str(directory))} already has a simulated machine",
            hint="pass another directory",
        )
    own = simulation()(simulated_folder(beside, must_exist=True), upkeep=False).coordinator
    code = own.measurements
    if unique_id:
        code = msgspec.structs.replace(code, unique_id=_read_unique_id(unique_id))
    add_simulated_machine()(folder, simulated_folder(beside), coordinator=code)
    result = {"machine": str(folder), "UniqueID": code.unique_id.hex()}
    show_result(result, result, as_json=as_json)


def _read_unique_id(text: str) -> bytes:
    try:
        value = bytes.fromhex(text)
    except ValueError:
        value = b""
    if len(value) != _UNIQUE_ID or len(text) != 2 * _UNIQUE_ID:
        raise WrongUsageError(
            f"--unique-id {text!r} is not a UniqueID",
            hint=f"pass {2 * _UNIQUE_ID} hex digits",
        )
    return value


class AddSimulatedMachine(Protocol):
    """A function that makes a simulated machine in a new folder."""

    def __call__(self, folder: Path, beside: Path, *, coordinator: Measurements) -> object:
        """Make and return a machine in ``folder``, of the same vendor as the machine in ``beside``.

        ``coordinator``: the measurements of the coordinator's code on the new machine. Raises
        ``RefusedError`` if the machine already exists, or if a folder cannot be used.
        """
        ...


def add_simulated_machine() -> AddSimulatedMachine:
    """Return the function that makes simulated machines, from the package of the simulation.

    Raises ``PlatformMissingError`` without this package.
    """
    return cast(AddSimulatedMachine, simulation_package().add_machine)
