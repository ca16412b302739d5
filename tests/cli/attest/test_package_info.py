"""The identity of a signed enclave is read from its signature, which has to be true."""

import base64
import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.host.sigstruct import UNIQUE_ID, sigstruct
from support.process.command_tree import typed
from support.samples.confidential_vms import QUOTE, TDX
from support.samples.hardware import SGX_QUOTE
from support.samples.snp_vms import SNP, VM

from keyhouse.cli.attest.package_info import SIZE, SigstructUnusableError, read_sigstruct
from keyhouse_simulation import QuotedSnp, SimulatedPlatform, make_machine


def test_identity_is_that_of_a_package(tmp_path: Path) -> None:
    (tmp_path / "app.sig").write_bytes(sigstruct(debug=True))

    ended = typed("package-info", str(tmp_path), "--json")

    assert json.loads(ended.stdout) == {
        "UniqueID": UNIQUE_ID.hex(),
        "SignerID": hashlib.sha256(sigstruct()[128:512]).hexdigest(),
        "ProductID": 7,
        "SecurityVersion": 258,
        "Debug": True,
    }
    assert "Debug            true" in typed("package-info", str(tmp_path / "app.sig")).stdout


@pytest.mark.parametrize("at", [0, 30, 40, 127, 200, 600, 900, 928, 970, 1024, 1027])
def test_changed_byte_is_refused(at: int) -> None:
    raw = bytearray(sigstruct())
    raw[at] ^= 1

    with pytest.raises(SigstructUnusableError):
        read_sigstruct(bytes(raw))


@pytest.mark.parametrize("raw", [b"", sigstruct()[:-1], sigstruct() + b"\0", bytes(SIZE)])
def test_what_is_no_signature_is_refused(raw: bytes) -> None:
    with pytest.raises(SigstructUnusableError):
        read_sigstruct(raw)


def test_directory_without_one_signature_is_refused(tmp_path: Path) -> None:
    ended = typed("package-info", str(tmp_path))

    assert ended.exit_code == 1
    assert "0 signatures" in ended.stderr


def test_quote_of_a_confidential_vm_gives_a_package_to_paste(tmp_path: Path) -> None:
    quote = tmp_path / "quote.txt"
    quote.write_bytes(base64.encodebytes(QUOTE))

    assert json.loads(typed("package-info", str(quote), "--json").stdout) == {"TDX": TDX}
    rows = typed("package-info", str(quote)).stdout
    assert f"TDX.RTMR1          {TDX['RTMR1']}" in rows
    assert "(SEPT_VE_DISABLE)" in rows
    assert "verified           NO" in rows


def test_report_of_amd_gives_its_package(tmp_path: Path) -> None:
    quote = tmp_path / "quote"
    machine = SimulatedPlatform(make_machine(datetime(2025, 7, 1, tzinfo=UTC)))
    quote.write_bytes(machine.snp_quote(VM, bytes(64)))

    found = json.loads(typed("package-info", str(quote), "--json").stdout)["SNP"]

    assert found == {name: SNP[name] for name in SNP if name not in {"VMPL", "SigningKey"}}
    rows = typed("package-info", str(quote)).stdout
    assert "Bootloader 10, TEE 0, SNP 23, Microcode 84" in rows
    quote.write_bytes(machine.snp_quote(QuotedSnp(policy=b"\0\0\x0b\0\0\0\0\0"), bytes(64)))
    assert "can be debugged" in typed("package-info", str(quote)).stderr


def test_report_of_version_2_gives_the_product_that_its_certificate_names() -> None:
    quote = Path(__file__).parents[2] / "attestation/vectors/snp_quote_listed"

    assert (
        json.loads(typed("package-info", str(quote), "--json").stdout)["SNP"]["Product"] == "Milan"
    )


def test_quote_of_an_enclave_gives_its_package(tmp_path: Path) -> None:
    quote = tmp_path / "quote"
    quote.write_bytes(SGX_QUOTE)

    found = json.loads(typed("package-info", str(quote), "--json").stdout)

    assert (found["UniqueID"], found["ProductID"]) == (SGX_QUOTE[112:144].hex(), 0)
    assert "verified         NO" in typed("package-info", str(quote)).stdout


def test_confidential_vm_that_nobody_admits_gives_no_package(tmp_path: Path) -> None:
    quote = tmp_path / "quote"
    quote.write_bytes(QUOTE[:168] + b"\1" + QUOTE[169:])

    ended = typed("package-info", str(quote), "--json")

    assert (ended.exit_code, ended.stdout) == (1, "")
    assert "can be debugged" in ended.stderr
