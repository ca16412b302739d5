"""The services of the ordering example towards peers that are wrong; launchers start them."""

import importlib.util
import json
import socket
import ssl
import sys
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path
from types import ModuleType

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from keyhouse_tests_deployment import user
from keyhouse_tests_mesh import coordinator_keys, leaf_for
from keyhouse_tests_server import free_port

from keyhouse.testing import Deployment, Enclave

EXAMPLE = Path(__file__).parents[2] / "examples/ordering"
STOCK = "stock.example.com"

pytestmark = pytest.mark.acceptance


def _enclave(name: str) -> Enclave:
    identity = json.loads((EXAMPLE / f"{name}.enclave.json").read_text())
    return Enclave(
        bytes.fromhex(identity.get("UniqueID", "00" * 32)),
        bytes.fromhex(identity.get("SignerID", "00" * 32)),
        identity.get("ProductID", 0),
        identity.get("SecurityVersion", 0),
    )


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    with Deployment((EXAMPLE / "manifest.json").read_bytes()) as running:
        yield running


def _launch(
    deployment: Deployment, folder: Path, kind: str, names: str, program: str, *words: int
) -> None:
    """Return once the program of a workload of type ``kind`` serves."""
    folder.mkdir()
    command = [sys.executable, str(EXAMPLE / "shop" / program), *map(str, words)]
    env = {"STOCK": "apples=1"}  # the manifest's wins, where it has one
    joined = deployment.launch(kind, _enclave(kind), command, folder=folder, names=names, env=env)
    assert joined.process.stdout is not None
    assert "serving" in joined.process.stdout.readline(), joined.wait().errors


def _buy(deployment: Deployment, port: int) -> tuple[int, str]:
    """Return status and text of an order for apples, as a customer gets them."""
    root = deployment.root.public_bytes(Encoding.PEM).decode()
    context = ssl.create_default_context(cadata=root)
    name = "orders.example.com"
    connection = HTTPSConnection(name, port)
    plain = socket.create_connection(("127.0.0.1", port), 20)
    connection.sock = context.wrap_socket(plain, server_hostname=name)
    try:
        connection.request("POST", "/apples")
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("kind", "names", "told"),
    [
        ("orders", STOCK, "the server is no stock"),  # a CSR may ask for any name
        ("stock", "other.example.com", "Hostname mismatch"),
    ],
    ids=["another type with its name", "the type with another name"],
)
def test_front_end_asks_nobody_but_the_stock(
    deployment: Deployment, kind: str, names: str, told: str, tmp_path: Path
) -> None:
    stock, orders = free_port(), free_port()
    _launch(deployment, tmp_path / "stock", kind, names, "stock.py", stock)
    _launch(
        deployment, tmp_path / "orders", "orders", "orders.example.com", "orders.py", orders, stock
    )

    found, text = _buy(deployment, orders)

    assert (found, told in text) == (502, True), text


@pytest.fixture(scope="module")
def reader() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "marble_type_of_the_example", EXAMPLE / "shop/marble_type.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", ["stock", "größe", "x" * 300], ids=["short", "not ASCII", "long"])
def test_marble_type_is_read_as_it_was_written(reader: ModuleType, kind: str) -> None:
    pem, _ = leaf_for(coordinator_keys(0), "a workload", kind)
    leaf = x509.load_pem_x509_certificate(pem)

    assert reader.marble_type(leaf.public_bytes(Encoding.DER)) == kind


def test_certificate_of_no_marble_has_no_type(reader: ModuleType) -> None:
    root = coordinator_keys(0).root_cert

    assert reader.marble_type(root) == ""
    assert reader.marble_type(user("anybody").der) == ""
