"""Step: change the manifest, which takes two of the three users."""

import json
from collections.abc import Mapping

from examples.demo.stage import Stage
from keyhouse.client import ClientIdentity, Coordinator, SecretObject, TrustedCoordinator

__all__ = ["update_it"]

_STEPS = ("Manifest update initiated", "Manifest update acknowledged", "Manifest updated")


def update_it(stage: Stage, trusted: TrustedCoordinator) -> None:
    """Propose a manifest as alice, look at it and agree as bob, and see it in force."""
    stage.screen.step(
        "Two of three change the manifest",
        "alice, bob and carol hold UpdateManifest, and UpdateThreshold is 2: nobody changes alone"
        " what is enforced. Alice proposes that the storage workload may be activated five times:",
    )
    before = _uploads(stage, trusted)
    stage.command("""sed 's/"MaxActivations": 3/"MaxActivations": 5/' manifest.json > new.json""")
    done = stage.keyhouse(*_update(stage, "apply", "new.json", by="alice"))
    stage.screen.holds(
        b"the update waits" in done.output and _in_force(stage, trusted) == "manifest.json",
        "it waits; manifest.json is still in force",
    )
    _look(stage)
    stage.screen.say()
    stage.screen.say("That is what he wants, too. He agrees to exactly the bytes that he has read:")
    stage.keyhouse(*_update(stage, "acknowledge", "pending.json", by="bob"))
    stage.screen.holds(
        _in_force(stage, trusted) == "new.json", "two of three: new.json is in force"
    )
    stage.screen.holds(_uploads(stage, trusted) == before, "bob's uploads are as they were")
    with Coordinator(trusted) as coordinator:
        log = [json.loads(entry.text) for entry in coordinator.update_log()[-len(_STEPS) :]]
    stage.screen.holds(
        tuple(entry["update"] for entry in log) == _STEPS
        and [entry.get("user") for entry in log] == ["alice", "bob", None],
        "the update log says who proposed, who agreed, and that it was applied",
    )
    stage.screen.say()
    stage.screen.say("Carol comes too late to agree, and could propose another one:")
    stage.keyhouse(*_update(stage, "acknowledge", "new.json", by="carol"), code=1)


def _look(stage: Stage) -> None:
    """Fetch the pending manifest and compare it, as bob does before he agrees."""
    stage.screen.say()
    stage.screen.say("Bob does not take her word for it. He fetches what waits, and compares:")
    folder = stage.shell.folder
    stage.keyhouse("manifest", "update", "get", stage.address, *_TRUST, "-o", "pending.json")
    done = stage.command("diff manifest.json pending.json || true")
    changed = [line for line in done.output.decode().splitlines() if line[:1] in {"<", ">"}]
    stage.screen.holds(
        len(changed) == len("<>")
        and (folder / "pending.json").read_bytes() == (folder / "new.json").read_bytes(),
        "one line differs; it is what alice uploaded, byte for byte",
    )


_TRUST = (
    *("--attestation", "state/simulation/attestation.json"),
    *("--simulation-root", "state/simulation/root.pem"),
)


def _update(stage: Stage, verb: str, file: str, *, by: str) -> tuple[str, ...]:
    user = ("--cert", f"{by}.crt", "--key", f"{by}.key")
    return ("manifest", "update", verb, file, stage.address, "--yes", *user, *_TRUST)


def _in_force(stage: Stage, trusted: TrustedCoordinator) -> str:
    """Return the name of the file that is enforced, byte for byte."""
    with Coordinator(trusted) as coordinator:
        current = coordinator.manifest().manifest
    files = ("manifest.json", "new.json")
    return next((f for f in files if (stage.shell.folder / f).read_bytes() == current), "")


def _uploads(stage: Stage, trusted: TrustedCoordinator) -> Mapping[str, SecretObject]:
    folder = stage.shell.folder
    bob = ClientIdentity(certificate=folder / "bob.crt", key=folder / "bob.key")
    with Coordinator(trusted, bob) as coordinator:
        return coordinator.secrets(["apiToken", "partnerKey", "partnerCert"])
