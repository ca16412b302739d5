"""The value of a secret as the coordinator keeps it."""

import msgspec

from keyhouse.base.secret import Secret


class StoredSecret(msgspec.Struct, frozen=True):
    """A generated or uploaded value.

    For ``symmetric-key`` and ``plain``, ``private`` and ``public`` are the same bytes and ``cert``
    is empty. For certificates: PKCS #8 DER (empty if a user uploaded none), SubjectPublicKeyInfo
    DER, certificate DER.
    """

    private: Secret
    public: Secret
    cert: bytes = b""
