"""Steps: check a manifest, set the manifest, and read the manifest in force."""

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
_SHARE = 33  # bytes of a Shamir share; the key has 32 bytes


def check_it(stage: Stage) -> dict[str, RSAPrivateKey]:
    """Make users, recovery keys and the manifest, and check it; return the recovery keys."""
    stage.screen.step(
        "Check a manifest",
        "manifest.json lists the packages, the secrets, three users (alice, bob, carol) with their"
        " rights, and three recovery keys. All keys are new in this run. The check reports every"
        " problem before a coordinator receives the manifest.",
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
        "the manifest is valid; the number is the SHA-256 of the file",
    )
    stage.screen.say()
    stage.screen.say("The check refuses a misspelt restriction, instead of ignoring it:")
    stage.command(
        "sed s/MaxActivations/MaxActivation/ manifest.json | keyhouse manifest check -", code=1
    )
    return {name: key for name, (key, _) in holders.items()}


def set_it(stage: Stage, holders: Mapping[str, RSAPrivateKey]) -> None:
    """Set the manifest, and decrypt a recovery secret as its holder."""
    stage.screen.step(
        "Set the manifest",
        "From now on the coordinator enforces this manifest. The answer has a share of the data key"
        " for each holder of a recovery key, encrypted to the holder's key.",
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
        f"rk2's private key decrypts rk2's recovery secret: a share of {_SHARE} bytes. Any 2 of the"
        " 3 shares restore the data key",
    )
    stage.screen.say("The holders keep recovery.json. The shares in this file are encrypted.")
    stage.screen.say()
    stage.screen.say("Nobody can set a second manifest, and nobody can set the same again:")
    stage.refused(Call("/api/v2/manifest", body="set.json"), 409, "refused")


def read_it_back(stage: Stage, trusted: TrustedCoordinator) -> None:
    """Read the manifest in force by curl, and by the SDK. The SDK verifies the signature."""
    stage.screen.step(
        "Read it back",
        "Anyone can read the manifest in force, without a certificate.",
    )
    answer = stage.call(Call("/api/v2/manifest"))
    wanted = (stage.shell.folder / "manifest.json").read_bytes()
    data = answer.json["data"]
    stage.screen.holds(
        base64.b64decode(data["manifest"]) == wanted,
        "the coordinator returns manifest.json, byte for byte",
    )
    stage.screen.holds(
        data["manifestFingerprint"] == hashlib.sha256(wanted).hexdigest(),
        "the fingerprint is the SHA-256 of manifest.json",
    )
    with Coordinator(trusted) as coordinator:
        current = coordinator.manifest()  # raises if the root key has not signed the manifest
    stage.screen.holds(
        current.manifest == wanted and bool(current.signature),
        "the key of the root certificate has signed the manifest; the quote confirms this root",
    )


def _filled_in(pems: Mapping[str, bytes]) -> bytes:
    """Return ``manifest.json`` with the PEM text of each name in place of ``@name@``."""
    text = _TEMPLATE.read_text(encoding="utf-8")
    for name, pem in pems.items():
        text = text.replace(f'"@{name}@"', msgspec.json.encode(pem.decode("ascii")).decode())
    return text.encode()
