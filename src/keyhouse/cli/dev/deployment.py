"""What a development coordinator enforces: verified first, then its first manifest is set."""

import json
import ssl
from collections.abc import Mapping
from pathlib import Path

import msgspec

from keyhouse.attestation import read_collateral, read_expected_identity
from keyhouse.base.durable_files import replace_file
from keyhouse.base.errors import ConflictError
from keyhouse.base.secret import Secret
from keyhouse.cli.dev.folder import Folder, user_in
from keyhouse.cli.dev.sample import GREETING, sample_manifest, with_user
from keyhouse.cli.manifest.file import read_manifest
from keyhouse.client import ClientIdentity, Coordinator, SecretUpload, Trust
from keyhouse.manifest import fingerprint

__all__ = ["Enforced", "prepare"]

_ACCEPTING, _RUNNING = 2, 3  # codes of the status


class Enforced(msgspec.Struct, frozen=True):
    """The manifest in force. Empty: there is no such thing."""

    fingerprint: str
    is_sample: bool
    manifest: str = ""  # the file that it was set from
    recovery_secrets: str = ""  # the file with them, if it has recovery keys


def prepare(folder: Folder, address: str, raw: bytes | None, *, has_user: bool) -> Enforced:
    """Verify the coordinator, and let it enforce ``raw``, or the sample if that is None.

    With ``has_user`` the user ``dev`` is in it. What a restarted coordinator enforces stays.
    Raises ``ConflictError`` if it is another manifest than ``raw``, or its state cannot be opened,
    and what verifying it and setting a manifest raises.
    """
    user = user_in(folder) if has_user else None
    if raw is not None and user is not None:
        raw = with_user(raw, user.certificate.read_text(encoding="ascii"))
    with Coordinator.connect(address, _trust(folder), user) as coordinator:
        root = ssl.DER_cert_to_PEM_cert(coordinator.trusted.root_der)
        replace_file(folder.root, root.encode("ascii"))
        match coordinator.status().code:
            case code if code == _ACCEPTING:
                return _set(folder, coordinator, raw, user)
            case code if code == _RUNNING:
                return _kept(folder, coordinator, raw)
            case _:
                raise ConflictError(
                    f"the state in {folder.path} cannot be opened any more",
                    hint=f"rm -r {folder.path} to begin with a new one",
                )


def _set(
    folder: Folder, coordinator: Coordinator, raw: bytes | None, user: ClientIdentity | None
) -> Enforced:
    path = folder.sample if raw is None else folder.path / "manifest.json"
    if raw is not None:
        replace_file(path, raw)
    else:
        assert user is not None  # noqa: S101 the sample has a user always
        replace_file(path, _sample(folder, user).encode())
    raw = read_manifest(str(path))
    shares = folder.path / "recovery-secrets.json"

    def keep(secrets: Mapping[str, bytes]) -> None:
        if secrets:
            replace_file(shares, msgspec.json.encode({"RecoverySecrets": secrets}))

    coordinator.set_manifest(raw, keep)
    if path == folder.sample:
        coordinator.write_secrets({GREETING: SecretUpload(key=Secret(b"hello"))})
    kept = str(shares) if shares.exists() else ""
    return Enforced(fingerprint(raw), path == folder.sample, str(path), kept)


def _kept(folder: Folder, coordinator: Coordinator, raw: bytes | None) -> Enforced:
    found = coordinator.manifest()
    if raw is not None and fingerprint(raw) != found.fingerprint:
        raise ConflictError(
            f"the coordinator in {folder.path} has another manifest",
            hint="leave --manifest out, and change it with keyhouse manifest update; or begin anew"
            f" with rm -r {folder.path}, --folder or --ephemeral",
        )
    sample = folder.sample
    if sample.exists() and fingerprint(read_manifest(str(sample))) == found.fingerprint:
        return Enforced(found.fingerprint, is_sample=True, manifest=str(sample))
    return Enforced(found.fingerprint, is_sample=False)


def _sample(folder: Folder, user: ClientIdentity) -> str:
    unique_id = json.loads(folder.attestation.read_bytes())["UniqueID"]
    return sample_manifest(unique_id, user.certificate.read_text(encoding="ascii"))


def _trust(folder: Folder) -> Trust:
    """Return trust in the simulated machine that this command has made."""
    collateral: Path = folder.machine / "collateral.json"
    return Trust(
        expected=read_expected_identity(folder.attestation.read_bytes()),
        root_ca_der=ssl.PEM_cert_to_DER_cert(folder.simulation_root.read_text(encoding="ascii")),
        collateral=read_collateral(collateral.read_bytes()),
    )
