"""Runs inside a workload: joins the deployment, puts files in place, starts the program."""

from keyhouse.launcher.activation import Request, activate, read_mesh_address
from keyhouse.launcher.credentials import (
    Credentials,
    Names,
    make_credentials,
    quote_over,
    read_names,
)
from keyhouse.launcher.errors import (
    ActivationRefusedError,
    AnswerUnreadableError,
    CoordinatorNotTrustedError,
    LaunchRefusedError,
    NotReachableError,
    NotReadyError,
)
from keyhouse.launcher.files import write_files
from keyhouse.launcher.lookup import run, within
from keyhouse.launcher.parameters import Delivered
from keyhouse.launcher.program import Program, program_of, start
from keyhouse.launcher.retries import Clock, MonotonicClock, retry
from keyhouse.launcher.trust import Anchor, read_anchor
from keyhouse.launcher.uuid_file import own_uuid, read_uuid

__all__ = [
    "ActivationRefusedError",
    "Anchor",
    "AnswerUnreadableError",
    "Clock",
    "CoordinatorNotTrustedError",
    "Credentials",
    "Delivered",
    "LaunchRefusedError",
    "MonotonicClock",
    "Names",
    "NotReachableError",
    "NotReadyError",
    "Program",
    "Request",
    "activate",
    "make_credentials",
    "own_uuid",
    "program_of",
    "quote_over",
    "read_anchor",
    "read_mesh_address",
    "read_names",
    "read_uuid",
    "retry",
    "run",
    "start",
    "within",
    "write_files",
]
