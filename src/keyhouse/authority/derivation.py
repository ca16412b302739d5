"""Derives the symmetric keys that each marble has of its own (not ``Shared`` in the manifest).

A derived key needs no storage: the same root secret, UUID, name and type give the same key at each
start. Different inputs give independent keys.
"""

from typing import Final
from uuid import UUID

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from keyhouse.base.errors import InvalidError, Problem
from keyhouse.base.printable import quoted
from keyhouse.base.secret import Secret
from keyhouse.wire.secret_types import SecretType, size_problem

_NIL: Final = UUID(int=0)


def derive_digest_key(root_secret: Secret) -> Secret:
    """Return the key (32 bytes) for keyed digests of a workload's parameters.

    A running workload compares digests to notice changed parameters. All replicas derive the same
    key: HKDF-SHA256 (RFC 5869) of the root secret, with ``keyhouse version v1`` as info and without
    a salt. Keys of marbles have a salt, so they are independent of this key.
    """
    kdf = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"keyhouse version v1")
    return Secret(kdf.derive(root_secret.reveal()))


def derive_marble_key(
    root_secret: Secret,
    *,
    marble: UUID,
    marble_type: str,
    secret_name: str,
    bits: int,
    bind_to_type: bool = True,
) -> Secret:
    """Return the key ``secret_name`` of a marble, with ``bits`` bits; equal at each activation.

    HKDF-SHA256 (RFC 5869) of the root secret: the salt is the canonical UUID and the name of the
    secret, the info is the marble type. ``bind_to_type=False`` (the manifest's
    ``DisableSecretBinding``) leaves out the type. Raises ``InvalidError`` for the nil UUID, an
    empty type or an impossible size. Source: ``docs/explanation/cryptography.md``, "Secrets".
    """
    problems: list[Problem] = []
    if marble == _NIL:
        problems.append(Problem("UUID", "is the nil UUID", "use a random UUID for each marble"))
    if not marble_type:
        problems.append(Problem("MarbleType", "is empty", "name a marble type of the manifest"))
    if problem := size_problem(SecretType.SYMMETRIC_KEY, bits, shared=False, user_defined=False):
        problems.append(Problem("Size", problem, "change Size in the manifest"))
    if problems:
        raise InvalidError(f"the key of secret {quoted(secret_name)} cannot be derived", problems)
    kdf = HKDF(
        algorithm=SHA256(),
        length=bits // 8,
        salt=f"{marble}{secret_name}".encode(),
        info=marble_type.encode() if bind_to_type else b"",
    )
    return Secret(kdf.derive(root_secret.reveal()))
