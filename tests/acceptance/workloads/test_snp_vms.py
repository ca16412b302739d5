"""Confidential VMs of SEV-SNP join a real coordinator; each that may not is told why."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec.structs import replace
from support.peers.workloads import WORKLOAD, Ended, grpcio, request
from support.process.command import run
from support.process.server import Server
from support.samples.snp_vms import SNP, VM

from keyhouse.attestation import Measurements, quote_binding, report_data
from keyhouse.attestation.kinds.snp.form import SNP_REPORT
from keyhouse_simulation import QuotedSnp, SimulatedPlatform, amd_vendor, make_machine
from keyhouse_simulation.amd_certificates import issue_amd_list
from keyhouse_simulation.platform import utc_now
from keyhouse_simulation.record import read_record

pytestmark = pytest.mark.acceptance

ENCLAVE = Measurements(
    unique_id=bytes(32), signer_id=b"\xab" * 32, product_id=7, security_version=3
)
BOUND = report_data(quote_binding(WORKLOAD.certificate))
OK, DENIED = grpc.StatusCode.OK, grpc.StatusCode.PERMISSION_DENIED
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
MANIFEST = json.dumps(
    {
        "Packages": {
            "vm": {"SNP": SNP},
            "app": {"SignerID": "ab" * 32, "ProductID": 7, "SecurityVersion": 3},
        },
        "Marbles": {"vm": {"Package": "vm"}, "app": {"Package": "app"}},
    }
).encode()


def machine_of(server: Server) -> SimulatedPlatform:
    record = (server.data / "simulation" / "machine.json").read_bytes()
    return SimulatedPlatform(read_record(record))


def outcome(server: Server, quote: bytes, kind: str = "vm") -> Ended:
    with grpcio(server.mesh_port) as channel:
        return channel.call(request(Quote=quote, MarbleType=kind))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("mixed") / "data") as running:
        with running.client() as client:
            assert client.set_manifest(MANIFEST).status == 200
        yield running


@pytest.mark.parametrize("version", [2, 3, 5])
def test_the_vm_of_the_package_is_admitted(server: Server, version: int) -> None:
    ended = outcome(server, machine_of(server).snp_quote(replace(VM, version=version), BOUND))
    assert ended.code is OK, ended.message
    assert ended.answer is not None
    assert "MARBLE_PREDEFINED_PRIVATE_KEY" in ended.answer.Parameters.Env


def test_each_kind_is_admitted_by_its_own_package_alone(server: Server) -> None:
    machine = machine_of(server)
    enclave = machine.workload_quote(ENCLAVE, BOUND)
    vm = machine.snp_quote(VM, BOUND)
    assert outcome(server, enclave, "app").code is OK
    crossed = outcome(server, enclave)
    assert (crossed.code, "SGX enclave" in crossed.message) == (DENIED, True)
    crossed = outcome(server, vm, "app")
    assert (crossed.code, "no TCB status" in crossed.message) == (DENIED, True)


OTHER = b"\x07" * 48
OLD = bytes.fromhex("0a00000000001654")
REFUSED: dict[str, tuple[QuotedSnp, str]] = {
    "Measurement": (replace(VM, measurement=OTHER), "SNP.Measurement: the confidential VM has 07"),
    "HostData": (replace(VM, host_data=OTHER[:32]), "SNP.HostData: "),
    "IDKeyDigest": (replace(VM, id_key_digest=OTHER), "SNP.IDKeyDigest: "),
    "AuthorKeyDigest": (replace(VM, author_key_digest=OTHER), "SNP.AuthorKeyDigest: "),
    "FamilyID": (replace(VM, family_id=OTHER[:16]), "SNP.FamilyID: "),
    "ImageID": (replace(VM, image_id=OTHER[:16]), "SNP.ImageID: "),
    "Policy": (replace(VM, policy=bytes.fromhex("1f00020000000000")), "SNP.Policy: "),
    "VMPL": (replace(VM, vmpl=1), "SNP.VMPL: "),
    "MinimumGuestSVN": (replace(VM, guest_svn=6), "SNP.MinimumGuestSVN: "),
    "AliasCheckComplete": (replace(VM, platform_info=0b101), "SNP.AliasCheckComplete: "),
    "MinimumTCB": (replace(VM, launch_tcb=OLD), "SNP.MinimumTCB: "),
    "debug": (replace(VM, policy=bytes.fromhex("1f000b0000000000")), "can be debugged"),
    "migration": (replace(VM, policy=bytes.fromhex("1f00070000000000")), "migration agent"),
}


@pytest.mark.parametrize("field", REFUSED)
def test_any_other_vm_is_refused_and_told_by_which_field(server: Server, field: str) -> None:
    vm, words = REFUSED[field]
    ended = outcome(server, machine_of(server).snp_quote(vm, BOUND))
    assert ended.code is DENIED
    assert words in ended.message


def test_what_is_played_back_or_changed_is_refused(server: Server) -> None:
    machine = machine_of(server)
    played_back = outcome(server, machine.snp_quote(VM, bytes(64)))
    assert (played_back.code, "another certificate" in played_back.message) == (DENIED, True)
    quote = bytearray(machine.snp_quote(VM, BOUND))
    quote[0x90] ^= 1
    changed = outcome(server, bytes(quote))
    assert (changed.code, "signature" in changed.message) == (DENIED, True)
    alone = outcome(server, bytes(machine.snp_quote(VM, BOUND)[:SNP_REPORT]))
    assert (alone.code, "no VCEK certificate" in alone.message) == (DENIED, True)


def test_amds_files_are_read_for_each_report(tmp_path: Path) -> None:
    files = tmp_path / "amd"
    files.mkdir()
    with Server(tmp_path / "data", arguments=["--amd-collateral", str(files)]) as running:
        with running.client() as client:
            assert client.set_manifest(MANIFEST).status == 200
        machine = machine_of(running)
        bare = machine.chip.report(VM, BOUND)
        nothing = outcome(running, machine.snp_quote(VM, BOUND))
        assert (nothing.code, "no revocation list" in nothing.message) == (DENIED, True)
        (files / "crl").write_text(amd_vendor.LIST)
        (files / "chain").write_text(amd_vendor.ASK)
        (files / "vcek").write_bytes(machine.chip.vcek)
        assert outcome(running, bare).code is OK
        (files / "broken").write_bytes(b"broken")
        broken = outcome(running, bare[:-1] + b"\0")
        assert (broken.code, "neither a certificate" in broken.message) == (UNAVAILABLE, True)
        (files / "broken").unlink()
        assert outcome(running, bare).code is OK
        (files / "crl").write_bytes(newer_list())
        assert outcome(running, bare).code is OK
        (files / "crl").write_text(amd_vendor.LIST)
        older = outcome(running, bare)
        assert (older.code, "older than" in older.message) == (UNAVAILABLE, True)


def newer_list() -> bytes:
    issuer = ("ARK-Genoa", amd_vendor.ark_key())
    day, now = timedelta(days=1), utc_now().replace(microsecond=0)
    return issue_amd_list(issuer, (), now - day, now + day).public_bytes(Encoding.DER)


def test_the_launcher_in_such_a_vm_starts_its_program(server: Server, tmp_path: Path) -> None:
    (tmp_path / "vm.json").write_text(json.dumps({"SNP": SNP}))
    (tmp_path / "other.json").write_text(json.dumps({"SNP": {**SNP, "ImageID": "00" * 16}}))
    joined, other = (
        run(
            "run",
            *("--coordinator", f"127.0.0.1:{server.mesh_port}", "--type", "vm"),
            *("--platform", "simulation", "--simulated-machine", str(server.data)),
            *("--simulated-identity", str(tmp_path / name)),
            *("--unverified-coordinator", "--uuid-file", str(tmp_path / "uuid")),
            *("--", "/bin/sh", "-c", "echo joined"),
        )
        for name in ("vm.json", "other.json")
    )
    assert (joined.code, joined.out) == (0, "joined\n"), joined.err
    assert other.code != 0
    assert 'package "vm" does not admit' in other.err


def test_another_machine_is_not_the_chip_of_the_certificate(server: Server) -> None:
    other = SimulatedPlatform(make_machine(utc_now())).chip.report(VM, BOUND)
    beside = machine_of(server).snp_quote(VM, BOUND)[SNP_REPORT:]
    ended = outcome(server, other + beside)
    assert (ended.code, "different chips" in ended.message) == (DENIED, True)
