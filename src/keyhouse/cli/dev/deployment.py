"""What a throw-away deployment needs beside its coordinator: a user, a manifest, files."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from keyhouse.attestation import read_collateral, read_expected_identity
from keyhouse.base.errors import ConflictError
from keyhouse.cli.dev.coordinator import Serving
from keyhouse.cli.dev.steps import Deployment
from keyhouse.cli.output.files import NewFile
from keyhouse.client import Coordinator, Trust
from keyhouse.client.identity import make_user
from keyhouse.manifest import decode, fingerprint
from keyhouse.manifest.source.json_source import canonical_json

__all__ = ["USER", "prepare", "sample_manifest", "with_user"]

USER: Final = "dev"
_READER: Final = "dev-reads"
_WRITER: Final = "dev-writes"

_SAMPLE: Final = """\
# Who may run: enclaves with this measurement. Here it is the simulated machine's own.
Packages:
  app:
    UniqueID: "{unique_id}"

# What runs: a workload gets its secrets in files and variables.
Marbles:
  web:
    Package: app
    Parameters:
      Env:
        TOKEN: "{{{{ hex .Secrets.token }}}}"

Secrets:
  token: {{Type: symmetric-key, Size: 128, Shared: true}}  # generated
  greeting: {{Type: plain, UserDefined: true}}  # uploaded by a user

# Who may do what: users are certificates.
Users:
  {user}:
    Roles: [reads, writes, updates]
    Certificate: |
{certificate}
Roles:
  reads: {{ResourceType: Secrets, ResourceNames: [token, greeting], Actions: [ReadSecret]}}
  writes: {{ResourceType: Secrets, ResourceNames: [greeting], Actions: [WriteSecret]}}
  updates: {{ResourceType: Manifest, Actions: [UpdateManifest]}}
"""


def sample_manifest(unique_id: str, certificate_pem: str) -> str:
    """Return a manifest in YAML for enclaves with ``unique_id`` (hex) and the user ``dev``."""
    indented = "".join(f"      {line}\n" for line in certificate_pem.splitlines())
    return _SAMPLE.format(unique_id=unique_id, user=USER, certificate=indented)


def with_user(raw: bytes, certificate_pem: str) -> bytes:
    """Return ``raw``, a checked manifest, with the user ``dev``: who may do all to its secrets.

    All that a manifest allows: read the shared and the uploaded ones, write the uploaded ones.
    Raises ``ConflictError`` if a name that this takes is in it.
    """
    meant = decode(raw)
    if USER in meant.users or {_READER, _WRITER} & meant.roles.keys():
        raise ConflictError(
            f"the manifest has a user {USER!r}, or a role {_READER!r} or {_WRITER!r}",
            hint="--no-user sets it as it is",
        )
    written = [name for name, secret in meant.secrets.items() if secret.user_defined]
    read = [name for name, secret in meant.secrets.items() if secret.user_defined or secret.shared]
    roles = {
        name: {"ResourceType": "Secrets", "ResourceNames": names, "Actions": [action]}
        for name, names, action in (
            (_READER, read, "ReadSecret"),
            (_WRITER, written, "WriteSecret"),
        )
        if names
    }
    content: dict[str, Any] = json.loads(raw)
    _section(content, "Users")[USER] = {"Certificate": certificate_pem, "Roles": [*roles]}
    _section(content, "Roles").update(roles)
    return canonical_json(content)


def _section(content: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the section ``name``, in whatever case it is written; made if there is none."""
    spelled = next((each for each in content if each.lower() == name.lower()), name)
    if content.get(spelled) is None:
        content[spelled] = {}
    section: dict[str, Any] = content[spelled]
    return section


_GREETING = b'{"greeting": {"key": "aGVsbG8="}}\n'


def prepare(folder: Path, serving: Serving, raw: bytes | None, *, made_user: bool) -> Deployment:
    """Make the user and the sample manifest in ``folder``, or set ``raw``; return what is where.

    Raises ``ConflictError`` if the user cannot be added to ``raw``, and what setting it raises.
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
