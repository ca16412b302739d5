"""Keyhouse: the trusted coordinator of a confidential-computing cluster.

For programs: ``Coordinator`` verifies a coordinator, then sends calls to the verified coordinator.
``AsyncCoordinator`` does the same on an event loop. ``keyhouse.client`` has all further names of
the SDK.
"""

from keyhouse.base.lazy_imports import on_demand
from keyhouse.base.version import VERSION

__version__ = VERSION

# This is ``typing.TYPE_CHECKING``. The import of ``typing`` would take longer than all further work
# of a process before an isolated process replaces it (base/process/isolation.py).
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
