"""Keyhouse: the trusted coordinator of a confidential-computing cluster.

For programs: ``Coordinator``, or ``AsyncCoordinator`` on an event loop, verifies a coordinator and
then talks to it. ``keyhouse.client`` has everything else of the SDK.
"""

from keyhouse.base.lazy_imports import on_demand
from keyhouse.base.version import VERSION

__version__ = VERSION

# As typing has it, but importing that takes longer than all else that a process does which is only
# to be replaced by an isolated one (base/process/isolation.py).
TYPE_CHECKING = False

if TYPE_CHECKING:
    from keyhouse.base.errors import KeyhouseError as KeyhouseError
    from keyhouse.base.secret import Secret as Secret
    from keyhouse.client import (
        AsyncCoordinator as AsyncCoordinator,
        CallRefusedError as CallRefusedError,
        Coordinator as Coordinator,
        FileMemory as FileMemory,
        SecretUpload as SecretUpload,
        ServiceUnavailableError as ServiceUnavailableError,
        Trust as Trust,
        TrustError as TrustError,
        UnreachableError as UnreachableError,
    )
else:
    __getattr__, __dir__, __all__ = on_demand(
        __name__,
        {
            "keyhouse.base.errors": "KeyhouseError",
            "keyhouse.base.secret": "Secret",
            "keyhouse.client": (
                "AsyncCoordinator CallRefusedError Coordinator FileMemory SecretUpload "
                "ServiceUnavailableError Trust TrustError UnreachableError"
            ),
        },
    )
