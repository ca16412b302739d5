"""What a development coordinator enforces: verified first, then its first manifest is set.

That is a sample, or the user's own manifest with the user ``dev``.
"""

import json
import ssl
from collections.abc import Mapping, Set as AbstractSet
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from keyhouse.attestation import read_collateral, read_expected_identity
from keyhouse.base.durable_files import replace_file
from keyhouse.base.errors import ConflictError
from keyhouse.base.secret import Secret
from keyhouse.cli.dev.folder import USER, Folder, user_in
from keyhouse.cli.manifest.file import read_manifest
from keyhouse.client import ClientIdentity, Coordinator, SecretUpload, Trust
from keyhouse.manifest import decode, fingerprint
from keyhouse.manifest.source.json_source import canonical_json
from keyhouse.manifest.source.yaml_text import read_yaml, write_yaml

GREETING: Final = "greeting"
"""The secret of the sample that has a value from the beginning."""

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


def with_shop(sample: str, shop: bytes) -> str:
    """Return ``sample`` with all that the manifest ``shop`` (JSON) has."""
    content: dict[str, Any] = read_yaml(sample.encode()).tree
    for section, entries in json.loads(shop).items():
        content[section].update(entries)
    return write_yaml(content)


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
    """Return the section ``name``, in whatever case it is written; made if missing."""
    spelled = next((each for each in content if each.lower() == name.lower()), name)
    if content.get(spelled) is None:
        content[spelled] = {}
    section: dict[str, Any] = content[spelled]
    return section


_ACCEPTING, _RUNNING = 2, 3  # codes of the status


class Enforced(msgspec.Struct, frozen=True):
    """The manifest in force. Empty: there is no such thing."""

    fingerprint: str
    is_sample: bool
    manifest: str = ""  # the file that it was set from
    recovery_secrets: str = ""  # the file with them, if it has recovery keys


class Wanted(NamedTuple):
    """What is to be enforced: a manifest of one's own, or else the sample."""

    raw: bytes | None
    has_user: bool  # the user dev is added to it; the sample has it always
    shop: bytes | None  # the manifest of the example, for the sample


def prepare(folder: Folder, address: str, wanted: Wanted) -> Enforced:
    """Verify the coordinator, and let it enforce what is ``wanted``.

    What a restarted coordinator enforces stays. Raises ``ConflictError`` if that is another
    manifest, or its state cannot be opened, and what verifying it and setting a manifest raises.
    """
    user = user_in(folder) if wanted.has_user else None
    if wanted.raw is not None and user is not None:
        own = with_user(wanted.raw, user.certificate.read_text(encoding="ascii"))
        wanted = wanted._replace(raw=own)
    with Coordinator.connect(address, _trust(folder), user) as coordinator:
        root = ssl.DER_cert_to_PEM_cert(coordinator.trusted.root_der)
        replace_file(folder.root, root.encode("ascii"))
        match coordinator.status().code:
            case code if code == _ACCEPTING:
                return _set(folder, coordinator, wanted, user)
            case code if code == _RUNNING:
                return _kept(folder, coordinator, wanted)
            case _:
                raise ConflictError(
                    f"the state in {folder.path} cannot be opened any more",
                    hint=f"rm -r {folder.path} to begin with a new one",
                )


def _set(
    folder: Folder, coordinator: Coordinator, wanted: Wanted, user: ClientIdentity | None
) -> Enforced:
    path = folder.sample if wanted.raw is None else folder.path / "manifest.json"
    if wanted.raw is not None:
        replace_file(path, wanted.raw)
    else:
        assert user is not None  # noqa: S101 the sample has a user always
        sample = _sample(folder, user)
        text = sample if wanted.shop is None else with_shop(sample, wanted.shop)
        replace_file(path, text.encode())
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


def _kept(folder: Folder, coordinator: Coordinator, wanted: Wanted) -> Enforced:
    found = coordinator.manifest()
    is_other = wanted.raw is not None and fingerprint(wanted.raw) != found.fingerprint
    if is_other or not _shop_in(wanted) <= decode(found.manifest).marbles.keys():
        raise ConflictError(
            f"the coordinator in {folder.path} has another manifest",
            hint="without --manifest and --example it continues with that one, which keyhouse"
            f" manifest update apply changes; to begin again: rm -r {folder.path}, --folder or"
            " --ephemeral",
        )
    sample = folder.sample
    if sample.exists() and fingerprint(read_manifest(str(sample))) == found.fingerprint:
        return Enforced(found.fingerprint, is_sample=True, manifest=str(sample))
    return Enforced(found.fingerprint, is_sample=False)


def _shop_in(wanted: Wanted) -> AbstractSet[str]:
    """Return the types of the example's workloads, if it is wanted."""
    return decode(wanted.shop).marbles.keys() if wanted.shop is not None else frozenset()


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
