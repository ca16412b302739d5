"""The data of a coordinator that must be the same after a crash or a recovery."""

import msgspec

from examples.demo.stage import Stage
from keyhouse.client import ClientIdentity, Coordinator, SecretObject, TrustedCoordinator

__all__ = ["Remembered", "compare", "remember", "user"]


class Remembered(msgspec.Struct, frozen=True):
    """Root certificate, manifest, secrets and update log at one moment."""

    root: bytes  # certificate, DER
    fingerprint: str  # of the manifest
    generated: dict[str, SecretObject]  # readable by carol
    uploaded: dict[str, SecretObject]  # uploaded by bob
    log: tuple[str, ...]  # texts of the update log


def remember(stage: Stage, trusted: TrustedCoordinator) -> Remembered:
    """Read the present data of the coordinator as carol and bob."""
    with Coordinator(trusted, user(stage, "carol")) as coordinator:
        fingerprint = coordinator.manifest().fingerprint
        generated = coordinator.secrets(["clusterKey", "apiCert"])
        log = tuple(entry.text for entry in coordinator.update_log())
    with Coordinator(trusted, user(stage, "bob")) as coordinator:
        uploaded = coordinator.secrets(["apiToken", "partnerKey", "partnerCert"])
    return Remembered(trusted.root_der, fingerprint, generated, uploaded, log)


def compare(stage: Stage, old: Remembered, new: Remembered) -> None:
    """Check root, manifest and secrets. Uploads of apiToken and partnerKey do not matter."""
    stage.screen.holds(new.root == old.root, "the same root certificate, confirmed by a new quote")
    stage.screen.holds(new.fingerprint == old.fingerprint, "the same manifest")
    stage.screen.holds(
        new.generated == old.generated
        and new.uploaded["partnerCert"] == old.uploaded["partnerCert"],
        "the same secrets: clusterKey, apiCert, partnerCert",
    )


def user(stage: Stage, name: str) -> ClientIdentity:
    """Return the certificate and key of a user of the demo."""
    folder = stage.shell.folder
    return ClientIdentity(certificate=folder / f"{name}.crt", key=folder / f"{name}.key")
