"""The delivered contents in pieces, and their completion with the workload's own certificate.

The coordinator does not know the workload's key. So a file arrives as pieces: data, and places for
parts of the newest certificate and key.
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


class Own(NamedTuple):
    """A placeholder in a file or variable, for a part of the workload's own certificate or key."""

    member: str  # CERT, PUBLIC or PRIVATE
    form: str  # PEM, RAW, HEX or BASE64


Pieces = tuple[Secret | Own, ...]


class Contents(NamedTuple):
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
        key before. Bundles of trusted roots come before both.
        """
        return sorted(self.files, key=lambda path: (_rank(self.files[path]), path))


def changed(before: Contents, have: wire.Version, given: wire.FetchResponse) -> Contents:
    """Return the parameters after ``given``, the answer to a request with the digests ``have``.

    The answer lacks each part with an equal digest: this part stays as in ``before``. The digest of
    the certificate covers the predefined variables. Raises ``AnswerUnreadableError``.
    """
    version = given.version
    same_env = (version.env, version.certificate) == (have.env, have.certificate)
    return Contents(
        before.files if version.files == have.files else _pieces(given.files),
        before.env if same_env else _pieces(given.env),
        before.argv if version.argv == have.argv else tuple(given.argv),
    )


def _pieces(given: Mapping[str, wire.Content]) -> dict[str, Pieces]:
    return {name: tuple(map(_piece, content.piece)) for name, content in given.items()}


def _piece(given: wire.Piece) -> Secret | Own:
    if not given.HasField("own"):
        return Secret(given.data)
    members, forms, place = wire.Own.Member, wire.Own.Form, given.own
    if place.member not in members.values() or place.form not in forms.values():
        raise AnswerUnreadableError("the coordinator delivers an unknown part of the certificate")
    return Own(members.Name(place.member), forms.Name(place.form))


def _filled(pieces: Iterable[Secret | Own], own: Credentials) -> bytes:
    return b"".join(
        piece.reveal() if isinstance(piece, Secret) else _written(piece, own) for piece in pieces
    )


def _written(place: Own, own: Credentials) -> bytes:
    content = _member(place.member, own)
    match place.form:
        case "HEX":
            return content.hex().encode()
        case "BASE64":
            return base64.b64encode(content)
        case "PEM":
            return pem_block(_LABELS[place.member], content).encode()
    return content


def _member(member: str, own: Credentials) -> bytes:
    if member == "PRIVATE":
        return own.key.reveal()
    if member == "CERT":
        return own.certificate
    key = x509.load_der_x509_certificate(own.certificate).public_key()
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _rank(pieces: Pieces) -> int:
    own = {piece.member for piece in pieces if isinstance(piece, Own)}
    if not own:
        return 0
    return 2 if own & {"CERT", "PUBLIC"} else 1
