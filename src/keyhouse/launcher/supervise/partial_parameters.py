"""The delivered parameters in pieces, and their completion with the workload's own certificate.

The coordinator does not know the workload's key. So a file arrives as pieces: data, and
placeholders for parts of the newest certificate and key.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from keyhouse.base.pem import pem_block
from keyhouse.base.secret import Secret
from keyhouse.launcher.credentials import Credentials
from keyhouse.launcher.errors import AnswerUnreadableError
from keyhouse.launcher.parameters import Delivered, check_parameters
from keyhouse.wire import workload_pb2 as wire

_LABELS: Final = {"CERT": "CERTIFICATE", "PUBLIC": "PUBLIC KEY", "PRIVATE": "PRIVATE KEY"}


class Placeholder(NamedTuple):
    """A placeholder in a file or variable, for a part of the workload's own certificate or key."""

    member: str  # CERT, PUBLIC or PRIVATE
    form: str  # PEM, RAW, HEX or BASE64


Pieces = tuple[Secret | Placeholder, ...]


class PartialParameters(NamedTuple):
    """The delivered parameters of the workload, with placeholders for its certificate and key."""

    files: Mapping[str, Pieces]  # by path
    env: Mapping[str, Pieces]  # by name
    argv: tuple[str, ...]

    def filled(self, own: Credentials) -> Delivered:
        """Return the parameters with the certificate and the key of ``own`` in the placeholders.

        Raises as ``check_parameters``.
        """
        return check_parameters(
            {path: _filled(pieces, own) for path, pieces in self.files.items()},
            {name: _filled(pieces, own) for name, pieces in self.env.items()},
            self.argv,
        )

    def in_order(self) -> list[str]:
        """Return the paths of the files in the order of their replacement.

        Files with the workload's own certificate come last, and private keys before them. So a
        program that reads a certificate, and then its key, never reads a new certificate with the
        former key. Bundles of trusted roots come before both.
        """
        return sorted(self.files, key=lambda path: (_rank(self.files[path]), path))


def changed(
    before: PartialParameters, have: wire.Version, given: wire.FetchResponse
) -> PartialParameters:
    """Return the parameters after ``given``, the answer to a request with the digests ``have``.

    The answer lacks files, variables or arguments if their digest has not changed. Then they stay
    as in ``before``. The digest of the certificate covers the predefined variables, so another
    certificate also brings the variables. Raises ``AnswerUnreadableError``.
    """
    version = given.version
    same_env = (version.env, version.certificate) == (have.env, have.certificate)
    return PartialParameters(
        before.files if version.files == have.files else _pieces(given.files),
        before.env if same_env else _pieces(given.env),
        before.argv if version.argv == have.argv else tuple(given.argv),
    )


def _pieces(given: Mapping[str, wire.Content]) -> dict[str, Pieces]:
    return {name: tuple(map(_piece, content.piece)) for name, content in given.items()}


def _piece(given: wire.Piece) -> Secret | Placeholder:
    if not given.HasField("own"):
        return Secret(given.data)
    members, forms, placeholder = wire.Own.Member, wire.Own.Form, given.own
    if placeholder.member not in members.values() or placeholder.form not in forms.values():
        raise AnswerUnreadableError("the coordinator sent a placeholder of an unknown kind")
    return Placeholder(members.Name(placeholder.member), forms.Name(placeholder.form))


def _filled(pieces: Iterable[Secret | Placeholder], own: Credentials) -> bytes:
    return b"".join(
        piece.reveal() if isinstance(piece, Secret) else _written(piece, own) for piece in pieces
    )


def _written(placeholder: Placeholder, own: Credentials) -> bytes:
    content = _member(placeholder.member, own)
    match placeholder.form:
        case "HEX":
            return content.hex().encode()
        case "BASE64":
            return base64.b64encode(content)
        case "PEM":
            return pem_block(_LABELS[placeholder.member], content).encode()
    return content


def _member(member: str, own: Credentials) -> bytes:
    if member == "PRIVATE":
        return own.key.reveal()
    if member == "CERT":
        return own.certificate
    key = x509.load_der_x509_certificate(own.certificate).public_key()
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _rank(pieces: Pieces) -> int:
    own = {piece.member for piece in pieces if isinstance(piece, Placeholder)}
    if not own:
        return 0
    return 2 if own & {"CERT", "PUBLIC"} else 1
