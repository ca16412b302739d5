"""What a throw-away deployment needs beside its coordinator: a user, a manifest, files."""

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from keyhouse.attestation import read_collateral, read_expected_identity
from keyhouse.cli.dev.coordinator import Serving
from keyhouse.cli.dev.manifest import USER, sample_manifest, with_user
from keyhouse.cli.dev.steps import Deployment
from keyhouse.cli.output.new_file import NewFile
from keyhouse.client import Coordinator, Trust
from keyhouse.client.identity import make_user
from keyhouse.manifest import fingerprint

__all__ = ["prepare"]

_GREETING = b'{"greeting": {"key": "aGVsbG8="}}\n'


def prepare(folder: Path, serving: Serving, raw: bytes | None, *, made_user: bool) -> Deployment:
    """Make the user and the sample manifest in ``folder``, or set ``raw``; return what is where.

    Raises ``Conflicting`` if the user cannot be added to ``raw``, and what setting it raises.
    """
    machine = folder / "keyhouse-data" / "simulation"
    where = Deployment(
        folder=str(folder),
        client_api=serving.client,
        workload_api=serving.workload,
        attestation=str(machine / "attestation.json"),
        simulation_root=str(machine / "root.pem"),
        memory=str(folder / "memory.json"),
    )
    certificate = ""
    if made_user:
        user = make_user(USER)
        certificate = user.certificate.decode()
        cert, key = folder / f"{USER}.pem", folder / f"{USER}.key"
        NewFile(str(cert)).write(user.certificate)
        NewFile(str(key)).write(user.key.reveal())
        where = msgspec.structs.replace(where, user=USER, certificate=str(cert), key=str(key))
    if raw is None:
        return _with_sample(folder, machine, certificate, where)
    return _with_manifest(folder, machine, with_user(raw, certificate) if made_user else raw, where)


def _with_sample(folder: Path, machine: Path, certificate: str, where: Deployment) -> Deployment:
    unique_id = json.loads((machine / "attestation.json").read_bytes())["UniqueID"]
    path = folder / "manifest.yaml"
    NewFile(str(path)).write(sample_manifest(unique_id, certificate).encode())
    NewFile(str(folder / "greeting.json")).write(_GREETING)
    return msgspec.structs.replace(where, manifest=str(path))


def _with_manifest(folder: Path, machine: Path, raw: bytes, where: Deployment) -> Deployment:
    path, shares = folder / "manifest.json", folder / "recovery-secrets.json"
    NewFile(str(path)).write(raw)

    def keep(secrets: Mapping[str, bytes]) -> None:
        if secrets:
            NewFile(str(shares)).write(msgspec.json.encode({"RecoverySecrets": secrets}))

    with Coordinator.connect(where.client_api, _trust(machine)) as coordinator:
        coordinator.set_manifest(raw, keep)
    return msgspec.structs.replace(
        where,
        manifest=str(path),
        fingerprint=fingerprint(raw),
        recovery_secrets=str(shares) if shares.exists() else "",
    )


def _trust(machine: Path) -> Trust:
    """Return trust in the simulated machine that this command has made."""
    root = x509.load_pem_x509_certificate((machine / "root.pem").read_bytes())
    return Trust(
        expected=read_expected_identity((machine / "attestation.json").read_bytes()),
        root_ca_der=root.public_bytes(Encoding.DER),
        collateral=read_collateral((machine / "collateral.json").read_bytes()),
    )
