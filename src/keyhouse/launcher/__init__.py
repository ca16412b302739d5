"""Run inside a workload: join the deployment, write the files, start the program.

``python -m keyhouse.launcher`` imports this package before the process is isolated from its
environment. So the package imports a public name at its first use.
"""

from keyhouse.base.lazy_imports import on_demand

TYPE_CHECKING = False  # importing typing takes longer than replacing this process

if TYPE_CHECKING:
    from keyhouse.launcher.activation import (
        Request as Request,
        activate as activate,
        read_mesh_address as read_mesh_address,
    )
    from keyhouse.launcher.credentials import (
        Credentials as Credentials,
        Names as Names,
        make_credentials as make_credentials,
        quote_over as quote_over,
        read_names as read_names,
    )
    from keyhouse.launcher.errors import (
        ActivationRefusedError as ActivationRefusedError,
        AnswerUnreadableError as AnswerUnreadableError,
        CoordinatorNotTrustedError as CoordinatorNotTrustedError,
        LaunchRefusedError as LaunchRefusedError,
        NotReachableError as NotReachableError,
        NotReadyError as NotReadyError,
    )
    from keyhouse.launcher.files import write_files as write_files
    from keyhouse.launcher.name_resolution import run as run, within as within
    from keyhouse.launcher.parameters import Delivered as Delivered
    from keyhouse.launcher.program import (
        Program as Program,
        program_of as program_of,
        start as start,
    )
    from keyhouse.launcher.retries import (
        MonotonicClock as MonotonicClock,
        RetryClock as RetryClock,
        retry as retry,
    )
    from keyhouse.launcher.trust import Anchor as Anchor, read_anchor as read_anchor
    from keyhouse.launcher.uuid_file import own_uuid as own_uuid, read_uuid as read_uuid
else:
    __getattr__, __dir__, __all__ = on_demand(
        __name__,
        {
            "keyhouse.launcher.activation": "Request activate read_mesh_address",
            "keyhouse.launcher.credentials": (
                "Credentials Names make_credentials quote_over read_names"
            ),
            "keyhouse.launcher.errors": (
                "ActivationRefusedError AnswerUnreadableError CoordinatorNotTrustedError "
                "LaunchRefusedError NotReachableError NotReadyError"
            ),
            "keyhouse.launcher.files": "write_files",
            "keyhouse.launcher.name_resolution": "run within",
            "keyhouse.launcher.parameters": "Delivered",
            "keyhouse.launcher.program": "Program program_of start",
            "keyhouse.launcher.retries": "MonotonicClock RetryClock retry",
            "keyhouse.launcher.trust": "Anchor read_anchor",
            "keyhouse.launcher.uuid_file": "own_uuid read_uuid",
        },
    )
