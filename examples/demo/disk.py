"""Step: copy the state directory to a different machine."""

import base64
from pathlib import Path

from examples.demo.access import TOKEN
from examples.demo.ports import free_port
from examples.demo.process import CoordinatorProcess
from examples.demo.shell import typed
from examples.demo.stage import Stage
from keyhouse.client import ClientIdentity, Coordinator, TrustedCoordinator

__all__ = ["carry_it_away"]

_TRUST_FAILED = 4  # exit code of ``keyhouse``


def carry_it_away(stage: Stage, trusted: TrustedCoordinator) -> None:
    """Copy the state to a second simulated machine.

    The state stays encrypted there, and clients of the first machine refuse the second machine.
    """
    stage.screen.step(
        "Carry its disk to another machine",
        "The state is encrypted under a data key, and only this CPU can unseal the data key. On the"
        " simulated platform, the folder state/simulation is the CPU. A copy of the state without"
        " this folder is on a different machine.",
    )
    values = _secret_values(stage, trusted)
    stage.screen.command(f"kill {stage.coordinator.pid}")
    stage.screen.holds(stage.coordinator.stop() == 0, "a clean stop")
    stage.command("cp -r state stolen && rm -r stolen/simulation")
    stage.screen.holds(
        not _contains(stage.shell.folder / "stolen", values),
        "the copied files contain no secret: not raw, not in hex, not in base64",
    )
    with CoordinatorProcess(stage.shell, free_port(), "stolen") as thief:
        stage.screen.command(typed(thief.words) + " &")
        thief.start()
        address = f"localhost:{thief.port}"
        done = stage.keyhouse(*_status(address, "stolen"))
        stage.screen.holds(
            done.output.startswith(b"state     1 "),
            "recovery mode: without manifest, users and secrets. Only two holders of recovery keys"
            " together could decrypt the state there",
        )
        stage.screen.say()
        stage.screen.say("A client that expects the first machine refuses the second machine:")
        stage.keyhouse(*_status(address, "state"), code=_TRUST_FAILED)


def _status(address: str, state: str) -> tuple[str, ...]:
    simulation = f"{state}/simulation"
    return (
        *("status", address),
        *("--attestation", f"{simulation}/attestation.json"),
        *("--simulation-root", f"{simulation}/root.pem"),
    )


def _secret_values(stage: Stage, trusted: TrustedCoordinator) -> tuple[bytes, ...]:
    folder = stage.shell.folder
    carol = ClientIdentity(certificate=folder / "carol.crt", key=folder / "carol.key")
    with Coordinator(trusted, carol) as coordinator:
        found = coordinator.secrets(["clusterKey", "apiCert"]).values()
    return (TOKEN, *(secret.private.reveal() for secret in found if secret.private))


def _contains(folder: Path, values: tuple[bytes, ...]) -> bool:
    forms = [f for v in values for f in (v, v.hex().encode(), base64.b64encode(v))]
    contents = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    return any(form in content for form in forms for content in contents)
