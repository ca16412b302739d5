"""Events of the process log that ``keyhouse dev`` recognises in the output of a coordinator.

The coordinator writes these texts, and ``keyhouse dev`` reads them, so both import them from here.
"""

from typing import Final

ACTIVATED: Final = "a workload was activated"
ACTIVATION_REFUSED: Final = "an activation was refused"
CALL_REFUSED: Final = "a call was refused"
HANDSHAKE_REFUSED: Final = "a TLS handshake was refused"
LOG_EXTENDED: Final = "the update log has a new entry"
OF_LAUNCHER: Final = "keyhouse run: "
SECRETS_READ: Final = "secrets were read"
