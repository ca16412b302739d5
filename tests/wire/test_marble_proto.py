"""The generated module of the workload API's messages is what its definition gives."""

import subprocess
import sys
from pathlib import Path

import pytest

from keyhouse.wire import marble_pb2

SOURCE = Path(marble_pb2.__file__).parents[2]
DEFINITION = "keyhouse/wire/marble.proto"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of freshly generated modules.

    To renew those of the repository, run the command from ``src`` with ``.`` for both folders.
    """
    folder = tmp_path_factory.mktemp("generated")
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I."]
    command += [f"--python_out={folder}", f"--pyi_out={folder}", DEFINITION]
    subprocess.run(command, cwd=SOURCE, check=True, timeout=60)
    return folder


@pytest.mark.parametrize("name", ["marble_pb2.py", "marble_pb2.pyi"])
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
