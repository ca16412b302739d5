"""Steps: start a coordinator, and find out whether it is the expected one."""

import ssl

from examples.demo.calls import STATUS
from examples.demo.pin import verify
from examples.demo.shell import typed
from examples.demo.stage import Stage
from keyhouse.client import TrustedCoordinator

__all__ = ["pin_it", "start_it", "verify_it"]

_ACCEPTING = 2


def start_it(stage: Stage) -> None:
    """Start the coordinator."""
    stage.screen.step(
        "Start a coordinator",
        "On a simulated platform: a software CPU that makes real quotes under a root of its own."
        " It proves nothing about hardware, and everything below says so.",
    )
    stage.screen.command(typed(stage.coordinator.words) + " &")
    seconds = stage.coordinator.start()
    stage.screen.holds(
        stage.coordinator.pid > 0,
        f"it serves the Client API at {stage.address} after {seconds:.2f} s,"
        f" process {stage.coordinator.pid}",
    )


def verify_it(stage: Stage) -> None:
    """Ask for the status with the command, which verifies the quote first."""
    stage.screen.step(
        "Ask how it is",
        "keyhouse verifies the coordinator's quote before it asks anything else."
        " The file attestation.json pins its expected identity.",
    )
    folder = "state/simulation"
    done = stage.keyhouse(
        *("status", stage.address),
        *("--attestation", f"{folder}/attestation.json"),
        *("--simulation-root", f"{folder}/root.pem"),
    )
    stage.screen.holds(
        done.output.startswith(b"state     2 "), "it is verified, and waits for its first manifest"
    )


def pin_it(stage: Stage) -> TrustedCoordinator:
    """Verify a quote over a fresh nonce; from then on only its exact certificate will do."""
    stage.screen.step(
        "Pin its certificate",
        "The same verification by the Python SDK, in a script of one page. It asks for a quote over"
        " a fresh nonce and writes down the root certificate that the quote vouches for. From here"
        " on curl accepts this coordinator and no other.",
    )
    script = stage.shell.script("pin.py")
    stage.command(typed(["python", script, stage.address, "state/simulation", "root.pem"]))
    trusted = verify(stage.address, stage.shell.folder / "state/simulation")
    pinned = ssl.PEM_cert_to_DER_cert((stage.shell.folder / "root.pem").read_text())
    stage.screen.holds(
        pinned == trusted.root_der, "measurement, signer, TCB status, binding and TLS peer verified"
    )
    answer = stage.call(STATUS)
    stage.screen.holds(
        answer.json["data"]["code"] == _ACCEPTING, "curl reaches it over TLS pinned to root.pem"
    )
    return trusted
