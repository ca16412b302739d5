"""The services of the ordering example towards peers that are wrong; launchers start them."""

import contextlib
import importlib.util
import json
import socket
import ssl
import sys
from collections.abc import Iterator, Mapping
from http.client import HTTPSConnection
from pathlib import Path
from types import ModuleType

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from support.peers.mesh import coordinator_keys, leaf_for
from support.process.server import free_port
from support.samples.deployment import user

from keyhouse.base.pem import certificate_pem
from keyhouse.launcher.trust import MARBLE_TYPE
from keyhouse.testing import Deployment, Enclave
from keyhouse_simulation.ordering import FOLDER

STOCK = "stock.example.com"

pytestmark = pytest.mark.acceptance


def _enclave(name: str) -> Enclave:
    identity = json.loads((FOLDER / f"{name}.enclave.json").read_text())
    return Enclave(
        bytes.fromhex(identity.get("UniqueID", "00" * 32)),
        bytes.fromhex(identity.get("SignerID", "00" * 32)),
        identity.get("ProductID", 0),
        identity.get("SecurityVersion", 0),
    )


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    with Deployment((FOLDER / "manifest.json").read_bytes()) as running:
        yield running


def _launch(
    deployment: Deployment, folder: Path, kind: str, names: str, program: str, *words: int
) -> None:
    """Return once the program of a workload of type ``kind`` serves."""
    folder.mkdir()
    command = [sys.executable, str(FOLDER / "shop" / program), *map(str, words)]
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
        ("orders", STOCK, "the server is not of the type stock"),  # a CSR may ask for any name
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
        "marble_type_of_the_example", FOLDER / "shop/marble_type.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", ["stock", "größe", "x" * 300], ids=["short", "not ASCII", "long"])
def test_marble_type_is_read_as_it_was_written(reader: ModuleType, kind: str) -> None:
    pem, _ = leaf_for(coordinator_keys(0), "a workload", kind)
    leaf = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)

    assert reader.marble_type(leaf, _marble_root(0)) == kind
    assert reader.marble_type(leaf, _marble_root(1)) == ""


def test_certificate_of_no_marble_has_no_type(reader: ModuleType) -> None:
    root = coordinator_keys(0).marble_root_cert

    assert reader.marble_type(root, _marble_root(0)) == ""
    assert reader.marble_type(user("anybody").der, _marble_root(0)) == ""


def _marble_root(number: int) -> str:
    return certificate_pem(coordinator_keys(number).marble_root_cert)


def _manifest_with_a_ca() -> bytes:
    manifest = json.loads((FOLDER / "manifest.json").read_text())
    cert = {"IsCA": True}
    manifest["Secrets"]["ca"] = {"Type": "cert-ecdsa", "Size": 256, "Shared": True, "Cert": cert}
    env = {"CA": "{{ pem .Secrets.ca.Cert }}", "KEY": "{{ pem .Secrets.ca.Private }}"}
    manifest["Marbles"]["signer"] = {"Package": "stock", "Parameters": {"Env": env}}
    return json.dumps(manifest).encode()


def _forged(env: Mapping[str, bytes], kind: str, file: Path) -> None:
    """Write key and chain of a workload of type ``kind``, signed with the secret that is a CA."""
    ca = x509.load_pem_x509_certificate(env["CA"])
    signer = load_pem_private_key(env["KEY"], None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    leaf = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(ca.not_valid_before_utc)
        .not_valid_after(ca.not_valid_after_utc)
        .add_extension(x509.UnrecognizedExtension(MARBLE_TYPE, kind.encode()), critical=False)
        .sign(signer, SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = leaf.public_bytes(Encoding.PEM) + ca.public_bytes(Encoding.PEM)
    file.write_bytes(private + chain)


def test_stock_refuses_a_marble_type_that_was_signed_with_a_secret(tmp_path: Path) -> None:
    port = free_port()
    with Deployment(_manifest_with_a_ca()) as deployment:
        _launch(deployment, tmp_path / "stock", "stock", STOCK, "stock.py", port)
        signer = deployment.activate("signer", _enclave("stock"))
        _forged(signer.env, "orders", tmp_path / "forged.pem")
        root = signer.root_ca.public_bytes(Encoding.PEM).decode()
        context = ssl.create_default_context(cadata=root)
        context.load_cert_chain(tmp_path / "forged.pem")
        connection = HTTPSConnection(STOCK, port)
        plain = socket.create_connection(("127.0.0.1", port), 20)
        connection.sock = context.wrap_socket(plain, server_hostname=STOCK)
        with contextlib.closing(connection):
            connection.request("POST", "/apples")
            assert connection.getresponse().status == 403
