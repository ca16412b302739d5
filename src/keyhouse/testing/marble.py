"""An activated workload, with its delivered files, variables and arguments."""

import uuid
from collections.abc import Mapping

import msgspec
from cryptography import x509
from cryptography.x509.oid import NameOID

from keyhouse.base.secret import Secret
from keyhouse.client import PemIdentity
from keyhouse.launcher import Delivered
from keyhouse.launcher.trust import MARBLE_TYPE

_CHAIN = "MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN"
_KEY = "MARBLE_PREDEFINED_PRIVATE_KEY"


class Marble(msgspec.Struct, frozen=True):
    """An activated workload with its files, variables and arguments, as its program would see them.

    The values are plain bytes, because they are secrets of a simulated deployment, and a failing
    test must be able to show them.
    """

    # Content by path.
    files: Mapping[str, bytes]
    # Values by name, including the predefined variables.
    env: Mapping[str, bytes]
    # Empty if the manifest has no arguments.
    argv: tuple[str, ...]

    @property
    def certificate(self) -> x509.Certificate:
        """The workload's own certificate."""
        return self.chain[0]

    @property
    def chain(self) -> tuple[x509.Certificate, ...]:
        """The workload's certificate, then the intermediate, signed by the deployment's root."""
        return tuple(x509.load_pem_x509_certificates(self.env[_CHAIN]))

    @property
    def root_ca(self) -> x509.Certificate:
        """The marble root: workloads verify each other under it, and an update replaces it."""
        return x509.load_pem_x509_certificate(self.env["MARBLE_PREDEFINED_ROOT_CA"])

    @property
    def key_pem(self) -> bytes:
        """The private key of the certificate, PKCS #8 in PEM."""
        return self.env[_KEY]

    @property
    def uuid(self) -> uuid.UUID:
        """The UUID of the instance in the certificate."""
        [name] = self.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return uuid.UUID(str(name.value))

    @property
    def marble_type(self) -> str:
        """The marble type in the certificate."""
        value = self.certificate.extensions.get_extension_for_oid(MARBLE_TYPE).value
        return value.public_bytes().decode()

    @property
    def identity(self) -> PemIdentity:
        """The identity for requests of the workload to the coordinator, for example to counters."""
        return PemIdentity(self.env[_CHAIN], Secret(self.key_pem))


def marble_of(delivered: Delivered) -> Marble:
    """Return the activated workload, with the secret values of ``delivered`` as plain bytes."""
    return Marble(
        {path: content.reveal() for path, content in delivered.files.items()},
        {name: value.reveal() for name, value in delivered.env.items()},
        delivered.argv,
    )
