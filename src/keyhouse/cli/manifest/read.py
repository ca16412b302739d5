"""`keyhouse manifest get | verify | log`: read the manifest in force and its history."""

import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import click
import msgspec

from keyhouse.base.printable import printable
from keyhouse.cli.manifest.file import AsYaml, read_manifest, write_manifest
from keyhouse.cli.options.connect import coordinator_of, store_certificates, without_stored_root
from keyhouse.cli.options.target import Target
from keyhouse.cli.output.files import write_output
from keyhouse.cli.output.log_entry import entry_words
from keyhouse.cli.output.show import show_json, show_result
from keyhouse.cli.output.width import columns, fitted
from keyhouse.cli.parser import Argument, AsJson, Option, WrongUsageError, command
from keyhouse.manifest import fingerprint
from keyhouse.wire.json_parser import read_json

if TYPE_CHECKING:
    from keyhouse.client import LogEntry

Output = Annotated[
    str, Option("--output", "-o", metavar="FILE", help="new file instead of standard output")
]

KeepCert = Annotated[
    bool,
    Option(
        "--keep-cert",
        help="store the coordinator's certificates in the file of --coordinator-cert (default:"
        " keyhouse/coordinator-cert.pem in $XDG_CONFIG_HOME or ~/.config)",
    ),
]
DisplayUpdate = Annotated[
    bool,
    Option(
        "--display-update",
        "-u",
        help="print the manifest with the security versions after package updates, not the signed"
        " bytes",
    ),
]
WithSignature = Annotated[
    bool,
    Option(
        "--json", "--signature", "-s", help="one JSON object, with fingerprint and root signature"
    ),
]

_FINGERPRINT = re.compile("[0-9A-Fa-f]{64}")
_APPLIED = "Manifest updated"


@command
def get(
    target: Target,
    output: Output = "",
    *,
    keep_cert: KeepCert = False,
    display_update: DisplayUpdate = False,
    as_yaml: AsYaml = False,
    as_json: WithSignature = False,
) -> None:
    """Print the manifest in force.

    The command verifies the root's signature over the manifest.

    Example: keyhouse manifest get localhost:4433 --attestation attestation.json --simulation-root
    root.pem -o manifest.json

    Without further options, a file or pipe gets exactly the bytes of the manifest. On a terminal,
    the output is indented. The coordinator stores JSON without comments. With --yaml, the command
    converts this JSON to YAML. If the manifest was uploaded as YAML, the printed YAML has the same
    fingerprint.
    """
    if as_yaml and as_json:
        raise WrongUsageError("--yaml contradicts --json", hint="omit one of the two")
    with coordinator_of(without_stored_root(target) if keep_cert else target) as coordinator:
        current = coordinator.manifest()
        entries = coordinator.update_log() if display_update else ()
        if keep_cert:
            store_certificates(coordinator.trusted, target.coordinator_cert)
    content = with_updates(current.manifest, entries) if display_update else current.manifest
    if not as_json:
        write_manifest(content, output, as_yaml=as_yaml)
        return
    encoded = msgspec.json.encode(
        {
            "manifestFingerprint": current.fingerprint,
            "manifestSignatureRootECDSA": current.signature,
            "manifest": content,
        }
    )
    write_output(encoded + b"\n", output)


@command
def verify(
    expected: Annotated[
        str, Argument(metavar="FILE|HEX", help="manifest file, or its fingerprint")
    ],
    target: Target,
    *,
    as_json: AsJson = False,
) -> None:
    """Verify that exactly this manifest is in force.

    The command verifies the coordinator first. Exit code 4: another manifest is in force.

    Example: keyhouse manifest verify manifest.json localhost:4433 --attestation attestation.json
    --simulation-root root.pem
    """
    is_fingerprint = _FINGERPRINT.fullmatch(expected)
    digest = expected.lower() if is_fingerprint else fingerprint(read_manifest(expected))
    with coordinator_of(without_stored_root(target)) as coordinator:
        verified = coordinator.verify_manifest(digest).fingerprint
        if target.coordinator_cert:
            store_certificates(coordinator.trusted, target.coordinator_cert)
    rows = {"state": "exactly this manifest is in force", "fingerprint": verified}
    show_result({"verified": True, "fingerprint": verified}, rows, as_json=as_json)


@command
def log(target: Target, output: Output = "", *, as_json: AsJson = False) -> None:
    """Print the update log: each change with its time and user.

    The oldest entry comes first.

    Example: keyhouse manifest log localhost:4433 --attestation attestation.json --simulation-root
    root.pem
    """
    with coordinator_of(target) as coordinator:
        entries = coordinator.update_log()
    if output:
        write_output("".join(f"{entry.text}\n" for entry in entries).encode(), output)
    elif as_json:
        show_json({"updateLog": [_fields(entry) for entry in entries]})
    else:
        width = columns(sys.stdout)
        for entry in entries:
            click.echo(fitted(_line(entry), width))


def _fields(entry: "LogEntry") -> dict[str, Any]:
    tree = read_json(entry.text.encode())
    return dict(tree) if isinstance(tree, dict) else {}


def _line(entry: "LogEntry") -> str:
    """Return an entry of the update log as a line: time and text, then the remaining fields."""
    return printable("  ".join([entry.time, entry.update, *entry_words(_fields(entry))]))


def with_updates(manifest: bytes, entries: "Iterable[LogEntry]") -> bytes:
    """Return ``manifest`` (JSON) with the security versions of later package updates.

    ``entries``: the whole update log, oldest first.
    """
    versions: dict[str, Any] = {}
    for entry in entries:
        fields = _fields(entry)
        if entry.update.startswith(_APPLIED) and "user" not in fields:
            versions = {}  # a full update discards the versions of package updates before
        elif "package" in fields and "new version" in fields:
            versions[fields["package"]] = fields["new version"]
    content = msgspec.json.decode(manifest)
    packages = content[_spelling(content, "Packages")]
    for name, version in versions.items():
        package = packages[name]
        package[_spelling(package, "SecurityVersion")] = version
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def _spelling(content: dict[str, Any], field: str) -> str:
    """Return the name in ``content`` that equals ``field`` in any case of letters.

    Without such a name, return ``field``.
    """
    return next((name for name in content if name.lower() == field.lower()), field)
