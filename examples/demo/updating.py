"""Step: change the manifest. The change needs two of the three users."""

import json
from collections.abc import Mapping

from examples.demo.stage import Stage
from keyhouse.client import ClientIdentity, Coordinator, SecretObject, TrustedCoordinator

__all__ = ["update_it"]

_STEPS = ("Manifest update initiated", "Manifest update acknowledged", "Manifest updated")


def update_it(stage: Stage, trusted: TrustedCoordinator) -> None:
    """Propose a manifest as alice, compare and acknowledge it as bob, and check the result."""
    stage.screen.step(
        "Two of three change the manifest",
        "alice, bob and carol have the permission UpdateManifest, and UpdateThreshold is 2: nobody"
        " changes the manifest alone. Alice proposes five activations of the storage workload:",
    )
    before = _uploads(stage, trusted)
    stage.command("""sed 's/"MaxActivations": 3/"MaxActivations": 5/' manifest.json > new.json""")
    done = stage.keyhouse(*_update(stage, "apply", "new.json", by="alice"))
    stage.screen.holds(
        b"the update waits" in done.output and _in_force(stage, trusted) == "manifest.json",
        "the update is pending; manifest.json is still in force",
    )
    _look(stage)
    stage.screen.say()
    stage.screen.say("Bob agrees to exactly the bytes in pending.json:")
    stage.keyhouse(*_update(stage, "acknowledge", "pending.json", by="bob"))
    stage.screen.holds(
        _in_force(stage, trusted) == "new.json", "two of three: new.json is in force"
    )
    stage.screen.holds(_uploads(stage, trusted) == before, "bob's uploads are unchanged")
    with Coordinator(trusted) as coordinator:
        log = [json.loads(entry.text) for entry in coordinator.update_log()[-len(_STEPS) :]]
    stage.screen.holds(
        tuple(entry["update"] for entry in log) == _STEPS
        and [entry.get("user") for entry in log] == ["alice", "bob", None],
        "the update log has the proposal by alice, the agreement of bob, and the update",
    )
    stage.screen.say()
    stage.screen.say("The acknowledgement of carol is too late. She could propose a new update:")
    stage.keyhouse(*_update(stage, "acknowledge", "new.json", by="carol"), code=1)


def _look(stage: Stage) -> None:
    """Fetch the pending manifest as bob, and compare it with the manifest in force."""
    stage.screen.say()
    stage.screen.say("Bob does not rely on alice. He fetches the pending manifest, and compares:")
    folder = stage.shell.folder
    stage.keyhouse("manifest", "update", "get", stage.address, *_TRUST, "-o", "pending.json")
    done = stage.command("diff manifest.json pending.json || true")
    changed = [line for line in done.output.decode().splitlines() if line[:1] in {"<", ">"}]
    stage.screen.holds(
        len(changed) == len("<>")
        and (folder / "pending.json").read_bytes() == (folder / "new.json").read_bytes(),
        "one line differs; pending.json is alice's new.json, byte for byte",
    )


_TRUST = (
    *("--attestation", "state/simulation/attestation.json"),
    *("--simulation-root", "state/simulation/root.pem"),
)


def _update(stage: Stage, verb: str, file: str, *, by: str) -> tuple[str, ...]:
    user = ("--cert", f"{by}.crt", "--key", f"{by}.key")
    return ("manifest", "update", verb, file, stage.address, "--yes", *user, *_TRUST)


def _in_force(stage: Stage, trusted: TrustedCoordinator) -> str:
    """Return the name of the file with the exact bytes of the manifest in force."""
    with Coordinator(trusted) as coordinator:
        current = coordinator.manifest().manifest
    files = ("manifest.json", "new.json")
    return next((f for f in files if (stage.shell.folder / f).read_bytes() == current), "")


def _uploads(stage: Stage, trusted: TrustedCoordinator) -> Mapping[str, SecretObject]:
    folder = stage.shell.folder
    bob = ClientIdentity(certificate=folder / "bob.crt", key=folder / "bob.key")
    with Coordinator(trusted, bob) as coordinator:
        return coordinator.secrets(["apiToken", "partnerKey", "partnerCert"])
