"""Steps: check a manifest, set it, and read it back."""

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from examples.demo.calls import Call
from examples.demo.people import HOLDERS, USERS, make_holder, make_user, opened, private_file
from examples.demo.stage import Stage
from keyhouse.client import Coordinator, TrustedCoordinator

__all__ = ["check_it", "read_it_back", "set_it"]

_TEMPLATE: Final = Path(__file__).with_name("manifest.json")
_SHARE = 33  # bytes: a Shamir share of a key of 32


def check_it(stage: Stage) -> dict[str, RSAPrivateKey]:
    """Make users, recovery keys and the manifest; check it. Return the recovery keys."""
    stage.screen.step(
        "Check a manifest",
        "manifest.json says which packages may run, which secrets there are, and who may do what:"
        " three users (alice, bob, carol) and three recovery keys, all made for this run. The"
        " check finds every problem before anything is set.",
    )
    folder = stage.shell.folder
    holders = {name: make_holder(folder, name) for name in HOLDERS}
    pems = {f"{name}.crt": make_user(folder, name) for name in USERS}
    pems |= {f"{name}.pub": pem for name, (_, pem) in holders.items()}
    manifest = _filled_in(pems)
    (folder / "manifest.json").write_bytes(manifest)
    done = stage.keyhouse("manifest", "check", "manifest.json")
    fingerprint = hashlib.sha256(manifest).hexdigest()
    stage.screen.holds(
        done.output.decode().split() == ["valid", fingerprint],
        "valid; the number is the SHA-256 of the file",
    )
    stage.screen.say()
    stage.screen.say("A misspelt restriction is refused, for it must never mean no restriction:")
    stage.command(
        "sed s/MaxActivations/MaxActivation/ manifest.json | keyhouse manifest check -", code=1
    )
    return {name: key for name, (key, _) in holders.items()}


def set_it(stage: Stage, holders: Mapping[str, RSAPrivateKey]) -> None:
    """Set the manifest, and open a recovery secret as its holder."""
    stage.screen.step(
        "Set the manifest",
        "Once and for all: from now on the coordinator enforces it. The answer has a share of its"
        " data key for each holder of a recovery key, encrypted for that holder alone.",
    )
    stage.command("""echo '{"manifest":"'$(base64 -w0 manifest.json)'"}' > set.json""")
    answer = stage.call(Call("/api/v2/manifest", body="set.json"))
    shares = answer.json["data"]["RecoverySecrets"]
    kept = json.dumps({"RecoverySecrets": shares}).encode()
    private_file(stage.shell.folder / "recovery.json", kept)
    stage.screen.holds(
        set(shares) == set(holders), f"a recovery secret for each of {', '.join(shares)}"
    )
    share = opened(holders["rk2"], base64.b64decode(shares["rk2"]))
    stage.screen.holds(
        len(share) == _SHARE,
        f"rk2's private key opens rk2's: a share of {_SHARE} bytes, any 2 of the 3 give the key",
    )
    stage.screen.say("The holders keep them, still encrypted, as recovery.json.")
    stage.screen.say()
    stage.screen.say("Nobody can set another one, not even the same again:")
    stage.refused(Call("/api/v2/manifest", body="set.json"), 409, "refused")


def read_it_back(stage: Stage, trusted: TrustedCoordinator) -> None:
    """Read the manifest in force, by curl and by the SDK, which checks its signature."""
    stage.screen.step(
        "Read it back",
        "Anybody can see what is enforced, without a certificate.",
    )
    answer = stage.call(Call("/api/v2/manifest"))
    wanted = (stage.shell.folder / "manifest.json").read_bytes()
    data = answer.json["data"]
    stage.screen.holds(
        base64.b64decode(data["manifest"]) == wanted, "it is manifest.json, byte for byte"
    )
    stage.screen.holds(
        data["manifestFingerprint"] == hashlib.sha256(wanted).hexdigest(),
        "the fingerprint is its SHA-256",
    )
    with Coordinator(trusted) as coordinator:
        current = coordinator.manifest()  # raises if the signature is not the root's
    stage.screen.holds(
        current.manifest == wanted and bool(current.signature),
        "the signature is by the key of the root certificate that the quote vouched for",
    )


def _filled_in(pems: Mapping[str, bytes]) -> bytes:
    """Return ``manifest.json`` with each ``@name@`` replaced by the PEM text of that name."""
    text = _TEMPLATE.read_text(encoding="utf-8")
    for name, pem in pems.items():
        text = text.replace(f'"@{name}@"', msgspec.json.encode(pem.decode("ascii")).decode())
    return text.encode()
