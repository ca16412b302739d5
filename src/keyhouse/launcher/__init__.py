"""What runs inside a workload: join the deployment, put what it delivers in place, start."""

from keyhouse.launcher.activation import Request, activate
from keyhouse.launcher.address import read_mesh_address
from keyhouse.launcher.credentials import Credentials, make_credentials
from keyhouse.launcher.errors import (
    ActivationRefused,
    AnswerUnreadable,
    CoordinatorNotTrusted,
    LaunchRefused,
    NotReachable,
    NotReady,
)
from keyhouse.launcher.evidence import quote_over
from keyhouse.launcher.files import write_files
from keyhouse.launcher.lookup import run, within
from keyhouse.launcher.names import Names, read_names
from keyhouse.launcher.parameters import Delivered
from keyhouse.launcher.persistence import Clock, MonotonicClock, persist
from keyhouse.launcher.program import Program, program_of, start
from keyhouse.launcher.trust import Anchor, read_anchor
from keyhouse.launcher.unsignalled import start_without_signals
from keyhouse.launcher.uuid_file import own_uuid, read_uuid

__all__ = [
    "ActivationRefused",
    "Anchor",
    "AnswerUnreadable",
    "Clock",
    "CoordinatorNotTrusted",
    "Credentials",
    "Delivered",
    "LaunchRefused",
    "MonotonicClock",
    "Names",
    "NotReachable",
    "NotReady",
    "Program",
    "Request",
    "activate",
    "make_credentials",
    "own_uuid",
    "persist",
    "program_of",
    "quote_over",
    "read_anchor",
    "read_mesh_address",
    "read_names",
    "read_uuid",
    "run",
    "start",
    "start_without_signals",
    "within",
    "write_files",
]
