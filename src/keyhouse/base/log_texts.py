"""Texts of the log that ``keyhouse dev`` matches, for their writers and for their reader."""

from typing import Final

ACTIVATED: Final = "a workload was activated"
ACTIVATION_REFUSED: Final = "an activation was refused"
CALL_REFUSED: Final = "a call was refused"
HANDSHAKE_REFUSED: Final = "a TLS handshake was refused"
LOG_EXTENDED: Final = "the update log has a new entry"
OF_LAUNCHER: Final = "keyhouse run: "
SECRETS_READ: Final = "secrets were read"
