"""Step: lose the sealed key, and recover with two of the three holders."""

from examples.demo.calls import STATUS
from examples.demo.pin import verify
from examples.demo.remembered import compare, remember
from examples.demo.shell import typed
from examples.demo.stage import Stage
from keyhouse.client import TrustedCoordinator

__all__ = ["recover_it"]

_TRUST_FAILED = 4  # exit code of ``keyhouse``
_SIMULATION = "state/simulation"
_TRUST = (
    *("--attestation", f"{_SIMULATION}/attestation.json"),
    *("--simulation-root", f"{_SIMULATION}/root.pem"),
)


def recover_it(stage: Stage, trusted: TrustedCoordinator) -> None:
    """Remove ``sealed_key``; restore the state with the shares of rk1 and rk3."""
    stage.screen.step(
        "Lose its key, and recover",
        "A new CPU, or new code under a different sealing policy, cannot unseal the data key. The"
        " demo deletes sealed_key for the same effect. RecoveryThreshold is 2: any two holders can"
        " restore the data key.",
    )
    old = remember(stage, trusted)
    stage.keyhouse("status", stage.address, *_TRUST)
    stage.screen.command(f"kill {stage.coordinator.pid}")
    stage.screen.holds(stage.coordinator.stop() == 0, "a clean stop")
    stage.command("rm state/sealed_key")
    stage.screen.command(typed(stage.coordinator.words) + " &")
    stage.coordinator.start()
    _see_recovery_mode(stage)
    _hand_in(stage)
    again = verify(stage.address, stage.shell.folder / _SIMULATION)
    new = remember(stage, again)
    compare(stage, old, new)
    stage.screen.holds(new.uploaded == old.uploaded, "all of bob's uploads")
    stage.screen.holds(new.log[: len(old.log)] == old.log, "the same log, line for line")
    answer = stage.call(STATUS)
    stage.screen.holds(
        answer.status == 200,  # noqa: PLR2004 (OK)
        "curl reaches the coordinator with the earlier root.pem",
    )


def _see_recovery_mode(stage: Stage) -> None:
    done = stage.keyhouse("status", stage.address, *_TRUST, "--memory", "none")
    stage.screen.holds(
        done.output.startswith(b"state     1 "), "recovery mode, under a temporary root"
    )
    stage.screen.say()
    stage.screen.say("The commands have stored the root, and refuse a different root:")
    stage.keyhouse("status", stage.address, *_TRUST, code=_TRUST_FAILED)


def _hand_in(stage: Stage) -> None:
    """Upload the shares of two holders."""
    stage.screen.say()
    stage.screen.say(
        "The command of each holder compares the root of the state with the stored root.pem. Then"
        " the command decrypts the share, signs it, encrypts it to the verified coordinator, and"
        " sends it:"
    )
    done = _upload(stage, "rk1")
    stage.screen.holds(
        _says(done, b"missing", b"1"), "one of two shares: the state is still encrypted"
    )
    stage.screen.say()
    done = _upload(stage, "rk3")
    stage.screen.holds(
        _says(done, b"missing", b"0"), "the second share decrypts the state, without rk2"
    )


def _upload(stage: Stage, holder: str) -> bytes:
    own = ("--key", f"{holder}.key", "--root", "root.pem")
    return stage.keyhouse("recover", "upload", "recovery.json", stage.address, *own, *_TRUST).output


def _says(output: bytes, name: bytes, value: bytes) -> bool:
    return [name, value] in [line.split() for line in output.splitlines()]
