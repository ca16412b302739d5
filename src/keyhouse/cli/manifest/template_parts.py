"""The parts of a first manifest: parse each option, and assemble the manifest."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import quoted
from keyhouse.base.user_files import read_file
from keyhouse.wire.json_decoder import nearest

_HEX: Final = re.compile("[0-9A-Fa-f]{64}")
_SIGNED: Final = re.compile(
    "signer:(?P<signer>[^,]*),product:(?P<product>[0-9]{1,9}),version:(?P<version>[0-9]{1,9})"
)
_SIZES: Final = {
    "symmetric-key": 256,
    "cert-ecdsa": 256,
    "cert-rsa": 2048,
    "cert-ed25519": 0,
    "plain": 0,
}
_SECRET: Final = re.compile(f"(?P<type>{'|'.join(_SIZES)})(?::(?P<size>[0-9]{{1,5}}))?")


class Parts(msgspec.Struct):
    """The elements of a new manifest, by section and name. Certificates and keys are PEM."""

    packages: dict[str, dict[str, Any]] = {}
    marbles: dict[str, str] = {}  # name of the package
    users: dict[str, str] = {}
    secrets: dict[str, dict[str, Any]] = {}
    recovery_keys: dict[str, str] = {}

    @property
    def are_empty(self) -> bool:
        """Whether the manifest has no elements, because no option names an element."""
        return not any(msgspec.structs.astuple(self))


class PartUnreadableError(RefusedError):
    """A part of the template has an invalid form."""

    code = "template-part"


def parts_of(
    packages: Sequence[str],
    marbles: Sequence[str],
    users: Sequence[str],
    secrets: Sequence[str],
    recovery_keys: Sequence[str],
) -> Parts:
    """Return the elements of the manifest from the values ``NAME=VALUE`` of the options.

    Each parameter has the values of an option, such as ``--package``. An element of ``marbles``
    without ``=VALUE`` uses the only package. Raises ``PartUnreadableError``.
    """
    parsed = _parse_entries("--package", packages, package_of)
    only = next(iter(parsed)) if len(parsed) == 1 else ""
    return Parts(
        packages=parsed,
        marbles=_parse_entries(
            "--marble",
            [each if "=" in each or not only else f"{each}={only}" for each in marbles],
            str,
        ),
        users=_parse_entries("--user", users, lambda path: pem_of(path, "CERTIFICATE")),
        secrets=_parse_entries("--secret", secrets, secret_of),
        recovery_keys=_parse_entries(
            "--recovery-key", recovery_keys, lambda path: pem_of(path, "PUBLIC KEY")
        ),
    )


def package_of(text: str) -> dict[str, Any]:
    """Return the package of the manifest for ``text``, the value of an option.

    ``text`` is a UniqueID, or ``signer:HEX,product:N,version:N``. Raises ``PartUnreadableError``.
    """
    if _HEX.fullmatch(text):
        return {"UniqueID": text.lower()}
    match = _SIGNED.fullmatch(text)
    if match is None or not _HEX.fullmatch(match["signer"]):
        raise PartUnreadableError(
            f"{quoted(text)} is neither a UniqueID nor a signer with a product",
            hint="write 64 hex digits, or signer:64-HEX-DIGITS,product:1,version:2",
        )
    return {
        "SignerID": match["signer"].lower(),
        "ProductID": int(match["product"]),
        "SecurityVersion": int(match["version"]),
    }


def secret_of(text: str) -> dict[str, Any]:
    """Return the secret of the manifest for ``text``: ``TYPE`` or ``TYPE:BITS``.

    A secret of the type ``plain`` is user-defined. The coordinator generates all other secrets.
    Raises ``PartUnreadableError``.
    """
    match = _SECRET.fullmatch(text)
    if match is None:
        raise PartUnreadableError(
            f"{quoted(text)} is not a type of secret",
            hint=f"{nearest(text.partition(':')[0], tuple(_SIZES))} (TYPE or TYPE:BITS)",
        )
    kind = match["type"]
    if kind == "plain":
        return {"Type": kind, "UserDefined": True}
    size = int(match["size"] or _SIZES[kind])
    return {"Type": kind, **({"Size": size} if size else {}), "Shared": True}


def pem_of(path: str, kind: str) -> str:
    """Return the first PEM block in the file ``path`` with the label ``kind``.

    The label is the word after BEGIN, such as "CERTIFICATE". Raises ``PartUnreadableError`` and
    ``FileUnreadableError``.
    """
    text = read_file(path).decode("ascii", errors="replace")
    match = re.search(f"-----BEGIN {kind}-----.*?-----END {kind}-----", text, re.DOTALL)
    if match is None:
        raise PartUnreadableError(
            f"{path} has no PEM block {kind}",
            hint=f"pass a PEM file that begins with -----BEGIN {kind}-----",
        )
    return "".join(f"{line.strip()}\n" for line in match.group().splitlines())


def starting_manifest(parts: Parts) -> dict[str, Any]:
    """Return a manifest with the elements ``parts``, and with roles for all its users.

    The roles permit to update the manifest, and to upload the user-defined secrets.
    """
    uploaded = [name for name, secret in parts.secrets.items() if "UserDefined" in secret]
    roles: dict[str, Any] = {}
    if parts.users:
        roles["updates"] = {"ResourceType": "Manifest", "Actions": ["UpdateManifest"]}
        if uploaded:
            actions = ["WriteSecret"]
            roles["writes"] = {
                "ResourceType": "Secrets",
                "ResourceNames": uploaded,
                "Actions": actions,
            }
    sections: dict[str, Any] = {
        "Packages": parts.packages,
        "Marbles": {name: {"Package": package} for name, package in parts.marbles.items()},
        "Secrets": parts.secrets,
        "Users": {
            name: {"Certificate": pem, "Roles": [*roles]} for name, pem in parts.users.items()
        },
        "Roles": roles,
        "RecoveryKeys": parts.recovery_keys,
    }
    return {name: section for name, section in sections.items() if section}


def _parse_entries(flag: str, values: Sequence[str], read: Callable[[str], Any]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for each in values:
        name, equals, what = each.partition("=")
        if not (name and equals and what):
            raise PartUnreadableError(
                f"{flag} {quoted(each)} is not NAME=VALUE",
                hint=f"write {flag} NAME=VALUE; keyhouse manifest template --help has examples",
            )
        if name in entries:
            raise PartUnreadableError(f"{flag} names {name!r} twice", hint="pass each name once")
        entries[name] = read(what)
    return entries
