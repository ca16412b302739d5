"""Steps: start a coordinator, and verify its identity."""

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
        "The platform is simulated: a CPU in software makes quotes under its own root. These quotes"
        " prove nothing about hardware.",
    )
    stage.screen.command(typed(stage.coordinator.words) + " &")
    seconds = stage.coordinator.start()
    stage.screen.holds(
        stage.coordinator.pid > 0,
        f"the coordinator serves the Client API at {stage.address} after {seconds:.2f} s,"
        f" process {stage.coordinator.pid}",
    )


def verify_it(stage: Stage) -> None:
    """Verify the quote, and read the status, with the command ``keyhouse status``."""
    stage.screen.step(
        "Ask how it is",
        "The command keyhouse first verifies the quote of the coordinator, then it requests the"
        " status. The file attestation.json pins the expected identity.",
    )
    folder = "state/simulation"
    done = stage.keyhouse(
        *("status", stage.address),
        *("--attestation", f"{folder}/attestation.json"),
        *("--simulation-root", f"{folder}/root.pem"),
    )
    stage.screen.holds(
        done.output.startswith(b"state     2 "),
        "the coordinator is verified, and waits for its first manifest",
    )


def pin_it(stage: Stage) -> TrustedCoordinator:
    """Verify a quote over a fresh nonce, and pin the root certificate of this quote."""
    stage.screen.step(
        "Pin its certificate",
        "A script of one page makes the same verification with the Python SDK. The script requests"
        " a quote over a fresh nonce. The quote confirms the root certificate, and the script"
        " writes the certificate to root.pem. From now on curl accepts this coordinator only.",
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
