"""The generated modules of the workload API's messages are what their definitions give."""

import subprocess
import sys
from pathlib import Path

import pytest

from keyhouse.wire import marble_pb2, workload_pb2

SOURCE = Path(marble_pb2.__file__).parents[2]
DEFINITIONS = ("keyhouse/wire/marble.proto", "keyhouse/wire/workload.proto")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of freshly generated modules.

    To renew those of the repository, run the command from ``src`` with ``.`` for both folders.
    """
    folder = tmp_path_factory.mktemp("generated")
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I."]
    command += [f"--python_out={folder}", f"--pyi_out={folder}", *DEFINITIONS]
    subprocess.run(command, cwd=SOURCE, check=True, timeout=60)
    return folder


@pytest.mark.parametrize(
    "name", ["marble_pb2.py", "marble_pb2.pyi", "workload_pb2.py", "workload_pb2.pyi"]
)
def test_the_generated_module_is_what_the_definition_gives(made: Path, name: str) -> None:
    again = (made / "keyhouse/wire" / name).read_text()
    assert (SOURCE / "keyhouse/wire" / name).read_text() == again


def test_names_and_numbers_of_the_fields_are_those_of_the_interface() -> None:
    found = {
        message.name: {field.name: field.number for field in message.fields}
        for message in marble_pb2.DESCRIPTOR.message_types_by_name.values()
    }
    assert found == {
        "ActivationReq": {"Quote": 1, "CSR": 2, "MarbleType": 3, "UUID": 4},
        "ActivationResp": {"Parameters": 1},
        "Parameters": {"Files": 1, "Env": 2, "Argv": 3},
    }
    method = marble_pb2.DESCRIPTOR.services_by_name["Marble"].methods_by_name["Activate"]
    assert method.full_name == "rpc.Marble.Activate"


def test_numbers_of_the_workload_channel_never_change() -> None:
    found = {
        message.name: {field.name: field.number for field in message.fields}
        for message in workload_pb2.DESCRIPTOR.message_types_by_name.values()
    }
    assert found == {
        "Place": {"epoch": 1, "sequence": 2, "chain": 3},
        "Version": {"files": 1, "env": 2, "argv": 3, "certificate": 4, "trust": 5},
        "ChallengeRequest": {"seen": 1},
        "ChallengeResponse": {"nonce": 1, "seconds": 2, "intermediate": 3, "at": 4},
        "RenewRequest": {"nonce": 1, "csr": 2, "evidence": 3, "seen": 5},
        "RenewResponse": {
            "chain": 1,
            "now": 3,
            "renew_at": 4,
            "end": 5,
            "at": 6,
            "settle_seconds": 7,
            "marble_roots": 8,
        },
        "FetchRequest": {"have": 1, "seen": 2},
        "Piece": {"data": 1, "own": 2},
        "Own": {"member": 2, "form": 3},
        "Content": {"piece": 1},
        "Rules": {"signal": 1, "command": 2, "restart": 3, "stop_at_end": 4},
        "FetchResponse": {
            "files": 1,
            "env": 2,
            "argv": 3,
            "marble_roots": 4,
            "version": 7,
            "at": 8,
            "rules": 9,
            "now": 10,
        },
        "WatchRequest": {"have": 1, "seen": 2, "once": 3},
        "WatchResponse": {
            "version": 1,
            "at": 2,
            "advice": 3,
            "spread_ms": 4,
            "now": 5,
            "poll_seconds": 6,
        },
    }
    methods = workload_pb2.DESCRIPTOR.services_by_name["Workload"].methods
    assert {each.full_name: each.server_streaming for each in methods} == {
        "keyhouse.workload.v1.Workload.Challenge": False,
        "keyhouse.workload.v1.Workload.Renew": False,
        "keyhouse.workload.v1.Workload.Fetch": False,
        "keyhouse.workload.v1.Workload.Watch": True,
    }
