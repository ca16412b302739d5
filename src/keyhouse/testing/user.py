"""Users for manifests under test."""

from datetime import timedelta
from typing import Final

import msgspec

from keyhouse.client import PemIdentity
from keyhouse.client.identity import make_user as make_command_user

_LIFETIME: Final = timedelta(days=3650)  # tests let years pass


class DeploymentUser(msgspec.Struct, frozen=True):
    """A user: ``certificate`` belongs into the manifest, ``identity`` to the SDK."""

    certificate: str  # PEM
    identity: PemIdentity


def make_user(name: str) -> DeploymentUser:
    """Return a new user with a certificate for ten years, signed by itself."""
    identity = make_command_user(name, _LIFETIME)
    return DeploymentUser(identity.certificate.decode(), identity)
