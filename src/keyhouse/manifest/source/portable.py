"""Find the keys of a manifest that only Keyhouse has.

Another implementation of the interface ignores unknown keys, and refuses unknown kinds of roles. An
ignored restriction does not restrict anything. So a portable manifest has none of these keys.
"""

from collections.abc import Iterator
from typing import Final

from keyhouse.base.errors import Problem
from keyhouse.base.printable import at
from keyhouse.manifest.model import Manifest, ResourceType

CONFIG: Final = {
    "Replicas": "hand the data key to replicas by its own rules",
    "Transparency": "serve secrets without witnesses, and accept updates without signed approvals",
    "Trust": "end the trust in the former marble root at each update",
}
"""The effect of another coordinator without the key, by key of ``Config``."""

KINDS_OF_VMS: Final = ("TDX", "SNP")


def unportable_keys(manifest: Manifest) -> list[Problem]:
    """Return a problem for each key that other implementations refuse or ignore.

    The problems are in the order of the sections. Each problem names the key and the effect.
    """
    return [*_packages(manifest), *_marbles(manifest), *_roles(manifest), *_config(manifest)]


def _packages(manifest: Manifest) -> Iterator[Problem]:
    for name, package in sorted(manifest.packages.items()):
        for kind in KINDS_OF_VMS:
            if getattr(package, kind.lower()) is not None:
                problem = (
                    "is unknown elsewhere: other coordinators refuse a package without an enclave"
                )
                hint = "remove the package, because only Keyhouse admits confidential VMs"
                yield Problem(at("Packages", name, kind), problem, hint)


def _marbles(manifest: Manifest) -> Iterator[Problem]:
    for name, marble in sorted(manifest.marbles.items()):
        if marble.renewal is not None:
            problem = (
                "is ignored by other coordinators: their certificates have no early end or renewal"
            )
            yield Problem(at("Marbles", name, "Renewal"), problem, "remove Renewal")


def _roles(manifest: Manifest) -> Iterator[Problem]:
    for name, role in sorted(manifest.roles.items()):
        if role.resource_type is ResourceType.MARBLES:
            problem = "is Marbles: other coordinators refuse a manifest with this kind of role"
            yield Problem(at("Roles", name, "ResourceType"), problem, "remove the role")


def _config(manifest: Manifest) -> Iterator[Problem]:
    for key, effect in CONFIG.items():
        if getattr(manifest.config, key.lower()) is not None:
            problem = f"is ignored by other coordinators: they {effect}"
            yield Problem(at("Config", key), problem, f"remove {key}")
