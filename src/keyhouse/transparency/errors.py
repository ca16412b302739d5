"""What is said of parts of a log that cannot be relied on."""

from keyhouse.base.errors import KeyhouseError


class LogInvalidError(KeyhouseError):
    """A proof, note, leaf or approval that does not verify, or is not as its format demands.

    The text repeats nothing of it: it may come from anyone.
    """

    code = "log-invalid"
