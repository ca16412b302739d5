"""Verify a development coordinator, and set its manifest.

The manifest is a sample, or the user's own manifest with the additional user ``dev``.
"""

import json
import ssl
import time
from collections.abc import Mapping, Set as AbstractSet
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from keyhouse.attestation import read_collateral, read_expected_identity
from keyhouse.base.durable_files import replace_file
from keyhouse.base.errors import ConflictError, UnavailableError
from keyhouse.base.secret import Secret
from keyhouse.cli.dev.folder import USER, Folder, user_in
from keyhouse.cli.dev.witnesses import trust_log
from keyhouse.cli.manifest.file import read_manifest
from keyhouse.client import ClientIdentity, Coordinator, SecretUpload, Trust
from keyhouse.manifest import decode, fingerprint
from keyhouse.manifest.source.json_source import canonical_json
from keyhouse.manifest.source.yaml_text import read_yaml, write_yaml

GREETING: Final = "greeting"
"""The sample's secret with an initial value."""

_READER: Final = "dev-reads"
_WRITER: Final = "dev-writes"

_SAMPLE: Final = """\
# Packages admit code: here, enclaves with the measurement of the simulated machine.
Packages:
  app:
    UniqueID: "{unique_id}"

# Marbles are types of workloads. A workload receives its secrets in files and variables.
Marbles:
  web:
    Package: app
    Parameters:
      Env:
        TOKEN: "{{{{ hex .Secrets.token }}}}"

Secrets:
  token: {{Type: symmetric-key, Size: 128, Shared: true}}  # generated
  greeting: {{Type: plain, UserDefined: true}}  # uploaded by a user

# Users are certificates. Roles decide what they may do.
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
    """Return the sample manifest (YAML) for enclaves with the UniqueID ``unique_id`` (hex).

    ``certificate_pem``: the certificate of the user ``dev``.
    """
    indented = "".join(f"      {line}\n" for line in certificate_pem.splitlines())
    return _SAMPLE.format(unique_id=unique_id, user=USER, certificate=indented)


_LEASE_SECONDS: Final = 60  # the minimum, so that a trial of an outage takes a minute
_SECONDS_TO_COSIGN: Final = 30.0  # seconds, chosen: local witnesses answer within one
# Seconds between polls of the status, chosen: people do not notice this delay.
_SECONDS_BETWEEN: Final = 0.1


def witness_section(policy: str) -> dict[str, Any]:
    """Return the field ``Config.Transparency`` for a manifest with the witnesses of ``policy``.

    ``policy``: the text of a policy of witnesses.
    """
    return {"Serve": "Witnessed", "LeaseSeconds": _LEASE_SECONDS, "Witnesses": policy}


def with_witnesses(raw: bytes, policy: str) -> bytes:
    """Return the checked manifest ``raw`` (JSON) with the witnesses of the policy text ``policy``.

    Raises ``ConflictError`` if the manifest already names witnesses.
    """
    given = decode(raw).config.transparency
    if given is not None and given.witnesses:
        raise ConflictError(
            "the manifest already names witnesses in Config.Transparency",
            hint="remove them from the manifest, or omit --witnesses",
        )
    content: dict[str, Any] = json.loads(raw)
    _section(_section(content, "Config"), "Transparency").update(witness_section(policy))
    return canonical_json(content)


def with_shop(sample: str, shop: bytes) -> str:
    """Return the manifest ``sample`` (YAML) with all elements of the example's manifest ``shop``.

    ``shop`` is JSON, the result is YAML.
    """
    content: dict[str, Any] = read_yaml(sample.encode()).tree
    for section, entries in json.loads(shop).items():
        content[section].update(entries)
    return write_yaml(content)


def with_user(raw: bytes, certificate_pem: str) -> bytes:
    """Return the checked manifest ``raw`` (JSON) with the user ``dev`` and roles for this user.

    The roles permit to read the shared and the user-defined secrets, and to write the user-defined
    secrets. ``certificate_pem``: the certificate of the user. Raises ``ConflictError`` if the
    manifest already has the name of the user or of a role.
    """
    manifest = decode(raw)
    if USER in manifest.users or {_READER, _WRITER} & manifest.roles.keys():
        raise ConflictError(
            f"the manifest already has the user {USER!r}, or the role {_READER!r} or {_WRITER!r};"
            " keyhouse dev would add them",
            hint="rename this user or role, or pass --no-user to set the manifest without changes",
        )
    written = [name for name, secret in manifest.secrets.items() if secret.user_defined]
    read = [
        name for name, secret in manifest.secrets.items() if secret.user_defined or secret.shared
    ]
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
    """Return the section ``name`` of the manifest ``content``; create a missing section.

    ``content`` may spell the name in upper-case or lower-case letters.
    """
    spelled = next((each for each in content if each.lower() == name.lower()), name)
    if content.get(spelled) is None:
        content[spelled] = {}
    section: dict[str, Any] = content[spelled]
    return section


_ACCEPTING, _RUNNING = 2, 3  # codes of the status


class EnforcedManifest(msgspec.Struct, frozen=True):
    """The manifest in force: its fingerprint and its files, as paths. "" means no such file."""

    fingerprint: str
    is_sample: bool
    manifest: str = ""  # the manifest's file
    recovery_secrets: str = (
        ""  # the file with the recovery secrets, for a manifest with recovery keys
    )


class ManifestRequest(NamedTuple):
    """The requested manifest: the user's own manifest, or else the sample."""

    raw: bytes | None
    has_user: bool  # the manifest receives the user dev; the sample always has this user
    shop: bytes | None  # the example's manifest, which is added to the sample
    policy: str = ""  # of the witnesses, which the manifest names; "": no witnesses


def prepare(folder: Folder, address: str, request: ManifestRequest) -> EnforcedManifest:
    """Verify the coordinator at ``address`` with the files of ``folder``, and set the manifest.

    ``request`` names the manifest. A restarted coordinator keeps the manifest in force. Raises
    ``ConflictError`` if that manifest differs from a requested manifest, or if the coordinator
    cannot open its state. Also raises the errors of ``Coordinator.connect`` and
    ``Coordinator.set_manifest``.
    """
    user = user_in(folder) if request.has_user else None
    if request.raw is not None and user is not None:
        own = with_user(request.raw, user.certificate.read_text(encoding="ascii"))
        request = request._replace(raw=own)
    if request.raw is not None and request.policy:
        request = request._replace(raw=with_witnesses(request.raw, request.policy))
    with Coordinator.connect(address, trust_in(folder), user) as coordinator:
        root = ssl.DER_cert_to_PEM_cert(coordinator.trusted.root_der)
        replace_file(folder.root, root.encode("ascii"))
        match coordinator.status().code:
            case code if code == _ACCEPTING:
                return _set_manifest(folder, coordinator, request, user)
            case code if code == _RUNNING:
                return _existing_manifest(folder, coordinator, request)
            case _:
                raise ConflictError(
                    f"the coordinator cannot open the state in {folder.path}",
                    hint=f"start again with a new state, after: rm -r {folder.path}",
                )


def _set_manifest(
    folder: Folder, coordinator: Coordinator, request: ManifestRequest, user: ClientIdentity | None
) -> EnforcedManifest:
    path = folder.sample if request.raw is None else folder.path / "manifest.json"
    if request.raw is not None:
        replace_file(path, request.raw)
    else:
        assert user is not None  # noqa: S101 the sample always has a user
        sample = _sample(folder, user)
        if request.policy:
            sample += write_yaml({"Config": {"Transparency": witness_section(request.policy)}})
        text = sample if request.shop is None else with_shop(sample, request.shop)
        replace_file(path, text.encode())
    raw = read_manifest(str(path))
    shares = folder.path / "recovery-secrets.json"

    def store_shares(secrets: Mapping[str, bytes]) -> None:
        if secrets:
            replace_file(shares, msgspec.json.encode({"RecoverySecrets": secrets}))

    coordinator.set_manifest(raw, store_shares)
    if request.policy:
        trust_log(folder, coordinator.log_key().verifier_key)
        _wait_until_served(coordinator)
    if path == folder.sample:
        coordinator.write_secrets({GREETING: SecretUpload(key=Secret(b"hello"))})
    recovery_file = str(shares) if shares.exists() else ""
    return EnforcedManifest(fingerprint(raw), path == folder.sample, str(path), recovery_file)


def _wait_until_served(coordinator: Coordinator) -> None:
    """Wait until a quorum of witnesses has cosigned, so the coordinator is not held any more.

    Raises ``UnavailableError`` after 30 seconds.
    """
    deadline = time.monotonic() + _SECONDS_TO_COSIGN
    while (message := coordinator.status().message).startswith("held:"):
        if time.monotonic() > deadline:
            raise UnavailableError(
                f"the witnesses do not cosign: {message}",
                hint="read the answers of the witnesses in the folder's file coordinator.log",
            )
        time.sleep(_SECONDS_BETWEEN)


def _existing_manifest(
    folder: Folder, coordinator: Coordinator, request: ManifestRequest
) -> EnforcedManifest:
    current = coordinator.manifest()
    is_other = request.raw is not None and fingerprint(request.raw) != current.fingerprint
    if is_other or not _shop_in(request) <= decode(current.manifest).marbles.keys():
        raise ConflictError(
            f"the coordinator in {folder.path} has a different manifest in force",
            hint="omit --manifest and --example to continue with the manifest in force; for a new"
            f" state, pass another --folder or --ephemeral, or run: rm -r {folder.path}",
        )
    sample = folder.sample
    if sample.exists() and fingerprint(read_manifest(str(sample))) == current.fingerprint:
        return EnforcedManifest(current.fingerprint, is_sample=True, manifest=str(sample))
    return EnforcedManifest(current.fingerprint, is_sample=False)


def _shop_in(request: ManifestRequest) -> AbstractSet[str]:
    """Return the marble types of the example in ``request``, or no types without the example."""
    return decode(request.shop).marbles.keys() if request.shop is not None else frozenset()


def _sample(folder: Folder, user: ClientIdentity) -> str:
    unique_id = json.loads(folder.attestation.read_bytes())["UniqueID"]
    return sample_manifest(unique_id, user.certificate.read_text(encoding="ascii"))


def trust_in(folder: Folder) -> Trust:
    """Return a client's requirements for the coordinator on the simulated machine in ``folder``."""
    collateral: Path = folder.machine / "collateral.json"
    return Trust(
        expected=read_expected_identity(folder.attestation.read_bytes()),
        root_ca_der=ssl.PEM_cert_to_DER_cert(folder.simulation_root.read_text(encoding="ascii")),
        collateral=read_collateral(collateral.read_bytes()),
    )
