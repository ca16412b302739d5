"""The manifest of the benchmark of running workloads, and its uploads and update."""

import base64

import msgspec
from benchmarks.living.workload import TYPE
from benchmarks.manifests import User, envelope

__all__ = ["living_manifest", "raised", "upload"]


def living_manifest(user: User) -> bytes:
    """Return a manifest with one renewable type. The file of this type is an uploaded secret."""
    roles = {
        "keepers": {
            "ResourceType": "Secrets",
            "ResourceNames": ["note"],
            "Actions": ["WriteSecret"],
        },
        "updaters": {
            "ResourceType": "Packages",
            "ResourceNames": ["app"],
            "Actions": ["UpdateSecurityVersion"],
        },
    }
    return msgspec.json.encode(
        {
            "Packages": {"app": {"SignerID": "00" * 32, "ProductID": 1, "SecurityVersion": 1}},
            "Marbles": {
                TYPE: {
                    "Package": "app",
                    "Renewal": {"ValidMinutes": 60},
                    "Parameters": {"Files": {"/note": "{{ raw .Secrets.note }}"}},
                }
            },
            "Secrets": {"note": {"Type": "plain", "UserDefined": True}},
            "Users": {"keeper": {"Certificate": user.text, "Roles": list(roles)}},
            "Roles": roles,
        }
    )


def upload(number: int) -> bytes:
    """Return the body of ``POST /api/v2/secrets`` with the value ``value<number>``."""
    value = base64.b64encode(b"value%d" % number).decode("ascii")
    return msgspec.json.encode({"secrets": {"note": {"key": value}}})


def raised() -> bytes:
    """Return the body of ``POST /api/v2/update`` to raise the SecurityVersion to 2."""
    return envelope(b'{"Packages": {"app": {"SecurityVersion": 2}}}')
