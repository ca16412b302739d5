"""The error for invalid parts of a log."""

from keyhouse.base.errors import KeyhouseError


class LogInvalidError(KeyhouseError):
    """A proof, note, leaf or approval does not verify, or violates its format.

    The text repeats no part of the input, because the input may come from an attacker.
    """

    code = "log-invalid"
