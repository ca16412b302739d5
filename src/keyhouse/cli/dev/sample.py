"""The manifest of a development coordinator: a sample, or the user's own with the user ``dev``."""

import json
from typing import Any, Final

from keyhouse.base.errors import ConflictError
from keyhouse.cli.dev.folder import USER
from keyhouse.manifest import decode
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
    """Return the section ``name``, in whatever case it is written; made if there is none."""
    spelled = next((each for each in content if each.lower() == name.lower()), name)
    if content.get(spelled) is None:
        content[spelled] = {}
    section: dict[str, Any] = content[spelled]
    return section
