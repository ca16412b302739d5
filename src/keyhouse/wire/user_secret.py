"""The value of a secret as a user uploads it."""

import msgspec

from keyhouse.base.secret import Secret

__all__ = ["UserSecret"]


class UserSecret(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of ``POST /api/v2/secrets``, after base64. ``None`` means: not given.

    Either ``key`` alone, or ``cert`` and, if wanted, ``private`` and ``public``. The latter three
    may be DER or PEM.
    """

    key: Secret | None = None
    cert: bytes | None = None
    private: Secret | None = None
    public: bytes | None = None

    @property
    def given(self) -> "UserSecret":
        """Without the fields that are empty."""
        return UserSecret(
            key=self.key or None,
            cert=self.cert or None,
            private=self.private or None,
            public=self.public or None,
        )

    @property
    def size(self) -> int:
        """How many bytes were uploaded."""
        given = (self.key, self.cert, self.private, self.public)
        return sum(len(field) for field in given if field is not None)
