"""What has to survive, whatever happens to the coordinator."""

import msgspec

from examples.demo.stage import Stage
from keyhouse.client import ClientIdentity, Coordinator, SecretObject, TrustedCoordinator

__all__ = ["Remembered", "compare", "remember", "user"]


class Remembered(msgspec.Struct, frozen=True):
    """What has to survive."""

    root: bytes
    fingerprint: str
    generated: dict[str, SecretObject]  # carol's
    uploaded: dict[str, SecretObject]  # bob's
    log: tuple[str, ...]


def remember(stage: Stage, trusted: TrustedCoordinator) -> Remembered:
    """Return what the coordinator has now, as carol and bob see it."""
    with Coordinator(trusted, user(stage, "carol")) as coordinator:
        fingerprint = coordinator.manifest().fingerprint
        generated = coordinator.secrets(["clusterKey", "apiCert"])
        log = tuple(entry.text for entry in coordinator.update_log())
    with Coordinator(trusted, user(stage, "bob")) as coordinator:
        uploaded = coordinator.secrets(["apiToken", "partnerKey", "partnerCert"])
    return Remembered(trusted.root_der, fingerprint, generated, uploaded, log)


def compare(stage: Stage, old: Remembered, new: Remembered) -> None:
    """Check what no upload changes."""
    stage.screen.holds(
        new.root == old.root, "the same root certificate, vouched for by a new quote"
    )
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
