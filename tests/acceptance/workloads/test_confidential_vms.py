"""Confidential VMs join a real coordinator beside enclaves; each that may not is told why."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from msgspec.structs import replace
from support.peers.workloads import WORKLOAD, Ended, grpcio, request
from support.process.server import Server
from support.samples.confidential_vms import QUOTE as QUOTE_OF_HARDWARE

from keyhouse.attestation import (
    Collateral,
    Measurements,
    TcbStatus,
    quote_binding,
    report_data,
    write_collateral,
)
from keyhouse_simulation import (
    Lists,
    QeIdentity,
    QuotedTd,
    QuoteParameters,
    QuotingEnclave,
    SimulatedPlatform,
    TcbInfo,
    TdxLevel,
    TdxQuoteForm,
    make_machine,
)
from keyhouse_simulation.pccs import PccsServer, ServedCollateral
from keyhouse_simulation.platform import utc_now
from keyhouse_simulation.record import read_record

pytestmark = pytest.mark.acceptance

VM = QuotedTd(
    mrtd=b"t" * 48,
    rtmrs=(b"0" * 48, b"1" * 48, b"2" * 48, b"3" * 48),
    mrconfigid=b"c" * 48,
    mrowner=b"o" * 48,
    mrownerconfig=b"w" * 48,
)
ENCLAVE = Measurements(
    unique_id=bytes(32), signer_id=b"\xab" * 32, product_id=7, security_version=3
)
BOUND = report_data(quote_binding(WORKLOAD.certificate))
OK, DENIED = grpc.StatusCode.OK, grpc.StatusCode.PERMISSION_DENIED
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


def manifest() -> bytes:
    """Return the manifest of a type ``vm``, whose package pins all, beside an enclave's ``app``."""
    pinned = {
        "MRTD": VM.mrtd,
        **{f"RTMR{number}": register for number, register in enumerate(VM.rtmrs)},
        "MRConfigID": VM.mrconfigid,
        "MROwner": VM.mrowner,
        "MROwnerConfig": VM.mrownerconfig,
        "MRSeam": VM.mrseam,
        "TDAttributes": VM.td_attributes,
        "XFAM": VM.xfam,
    }
    document: dict[str, Any] = {
        "Packages": {
            "vm": {"TDX": {name: value.hex() for name, value in pinned.items()}},
            "app": {"SignerID": "ab" * 32, "ProductID": 7, "SecurityVersion": 3},
        },
        "Marbles": {"vm": {"Package": "vm"}, "app": {"Package": "app"}},
    }
    return json.dumps(document).encode()


def machine_of(server: Server, parameters: QuoteParameters | None = None) -> SimulatedPlatform:
    """Return the machine of the coordinator, bent."""
    record = (server.data / "simulation" / "machine.json").read_bytes()
    return SimulatedPlatform(read_record(record), parameters)


def outcome(server: Server, quote: bytes, kind: str = "vm") -> Ended:
    with grpcio(server.mesh_port) as channel:
        return channel.call(request(Quote=quote, MarbleType=kind))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("mixed") / "data") as running:
        with running.client() as client:
            assert client.set_manifest(manifest()).status == 200
        yield running


@pytest.mark.parametrize("form", TdxQuoteForm)
def test_the_vm_of_the_package_is_admitted(server: Server, form: TdxQuoteForm) -> None:
    ended = outcome(server, machine_of(server).td_quote(replace(VM, form=form), BOUND))
    assert ended.code is OK, ended.message
    assert ended.answer is not None
    assert "MARBLE_PREDEFINED_PRIVATE_KEY" in ended.answer.Parameters.Env


def test_enclaves_and_vms_are_admitted_each_by_its_own_package(server: Server) -> None:
    machine = machine_of(server)
    quotes = {
        "vm": machine.td_quote(VM, BOUND),
        "app": machine.workload_quote(ENCLAVE, BOUND),
    }
    for kind, quote in quotes.items():
        assert outcome(server, quote, kind).code is OK
    crossed = {kind: outcome(server, quotes[other], kind) for kind, other in CROSSED}
    assert {ended.code for ended in crossed.values()} == {DENIED}
    assert "Tee: the quote is of an SGX enclave, the package is for" in crossed["vm"].message
    assert (
        "Tee: the quote is of a confidential VM (TDX), the package is for" in crossed["app"].message
    )


CROSSED = (("vm", "app"), ("app", "vm"))
V5 = {"form": TdxQuoteForm.V5_REPORT_15}
OTHER = b"\x07" * 48

# Who asks, bent in one place, and the words by which the operator knows the place.
REFUSED: dict[str, tuple[QuoteParameters, str]] = {
    "MRTD": (
        QuoteParameters(td=replace(VM, mrtd=OTHER)),
        "TDX.MRTD: the confidential VM has 0707",
    ),
    **{
        f"RTMR{number}": (
            QuoteParameters(
                td=replace(VM, rtmrs=(*VM.rtmrs[:number], OTHER, *VM.rtmrs[number + 1 :]))
            ),
            f"TDX.RTMR{number}: the confidential VM has 0707",
        )
        for number in range(4)
    },
    "MRConfigID": (QuoteParameters(td=replace(VM, mrconfigid=OTHER)), "TDX.MRConfigID: "),
    "MROwner": (QuoteParameters(td=replace(VM, mrowner=OTHER)), "TDX.MROwner: "),
    "MROwnerConfig": (QuoteParameters(td=replace(VM, mrownerconfig=OTHER)), "TDX.MROwnerConfig: "),
    "MRSeam": (QuoteParameters(td=replace(VM, mrseam=OTHER)), "TDX.MRSeam: "),
    "TDAttributes": (
        QuoteParameters(td=replace(VM, td_attributes=bytes.fromhex("0000005000000000"))),
        "TDX.TDAttributes: ",
    ),
    "XFAM": (QuoteParameters(td=replace(VM, xfam=bytes.fromhex("e700060000000000"))), "TDX.XFAM: "),
    "debug": (
        QuoteParameters(td=replace(VM, td_attributes=bytes.fromhex("0100001000000000"))),
        "debug enclave or confidential VM, whose memory anybody can read",
    ),
    "profiling": (
        QuoteParameters(td=replace(VM, td_attributes=bytes.fromhex("1000001000000000"))),
        "profiling",
    ),
    "migration": (
        QuoteParameters(td=replace(VM, td_attributes=bytes.fromhex("0000003000000000"))),
        "a service TD may change or move the confidential VM",
    ),
    "service TD": (
        QuoteParameters(td=replace(VM, **V5, mrservicetd=OTHER)),
        "a service TD may change or move the confidential VM",
    ),
    "signer of the module": (
        QuoteParameters(td=replace(VM, mrsignerseam=OTHER)),
        "the TDX module that runs the confidential VM is not the platform vendor's",
    ),
    "old module": (
        QuoteParameters(td=replace(VM, tee_tcb_svn=bytes(16))),
        "the TCB of the platform is below every TCB level in the collateral",
    ),
    "signer of the quoting enclave": (
        QuoteParameters(td=VM, td_quoting_enclave=QuotingEnclave(product_id=2, signer=bytes(32))),
        "the quoting enclave is not the platform vendor's",
    ),
    "quoting enclave for SGX": (
        QuoteParameters(td=VM, td_quoting_enclave=QuotingEnclave()),
        "the quoting enclave is not the platform vendor's",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_vm_that_differs_is_refused_by_name(server: Server, case: str) -> None:
    parameters, words = REFUSED[case]
    ended = outcome(server, machine_of(server, parameters).td_quote(None, BOUND))
    assert ended.code is DENIED
    assert words in ended.message


def test_quotes_that_are_played_back_changed_or_of_another_root_are_refused(
    server: Server,
) -> None:
    machine, elsewhere = machine_of(server), SimulatedPlatform(make_machine(utc_now()))
    for quote, words in (
        (
            machine.td_quote(VM, report_data(quote_binding(b"another's certificate"))),
            "ReportData: the quote was made for another certificate",
        ),
        (_flipped(machine.td_quote(VM, BOUND), 200), "a signature of the quote"),
        (elsewhere.td_quote(VM, BOUND), "does not end in the pinned root"),
        (QUOTE_OF_HARDWARE, "does not end in the pinned root"),
        (machine.td_quote(VM, BOUND)[:-1], "malformed"),
    ):
        ended = outcome(server, quote)
        assert ended.code is DENIED
        assert words in ended.message


def _flipped(quote: bytes, at: int) -> bytes:
    return quote[:at] + bytes([quote[at] ^ 1]) + quote[at + 1 :]


DAY = timedelta(days=1)
KNOWN = TcbInfo(id="TDX", tdx=TdxLevel())
OUTDATED = replace(KNOWN, tdx=TdxLevel(module_status=TcbStatus.OUT_OF_DATE))
NEWER = QuoteParameters(
    td_tcb_info=replace(KNOWN, evaluation_number=2),
    td_qe_identity=QeIdentity(id="TD_QE", product_id=2, evaluation_number=2),
)
# What the vendor says, in the order of the test: quotes are new each time.
COLLATERAL: tuple[tuple[QuoteParameters, grpc.StatusCode, str], ...] = (
    (QuoteParameters(td_tcb_info=replace(KNOWN, status=TcbStatus.REVOKED)), DENIED, "revoked"),
    (QuoteParameters(lists=Lists(number=2, revokes_pck=True)), DENIED, "revoked"),
    (
        QuoteParameters(td_tcb_info=OUTDATED),
        DENIED,
        "AcceptedTCBStatuses: the platform's TCB status",
    ),
    (
        QuoteParameters(td_tcb_info=replace(KNOWN, issued_ago=9 * DAY, valid_for=8 * DAY)),
        DENIED,
        "the collateral or a certificate has expired",
    ),
    (QuoteParameters(), OK, ""),
    (NEWER, OK, ""),
    (
        QuoteParameters(),
        UNAVAILABLE,
        "the collateral is older than earlier collateral: tcb-info/tdx",
    ),
)


def test_what_the_vendor_says_of_vms_counts_from_when_its_bundle_is_there(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(manifest()).status == 200
        place = server.data / "simulation" / "collateral-tdx.json"
        for parameters, code, words in COLLATERAL:
            platform = machine_of(server, parameters)
            _put(place, platform.td_collateral)
            ended = outcome(server, platform.td_quote(VM, BOUND))
            assert ended.code is code, ended.message
            assert words in ended.message
            # What is said of TDX leaves enclaves alone, but lists are of the whole machine.
            of_enclave = OK if not parameters.lists.revokes_pck else DENIED
            quote = platform.workload_quote(ENCLAVE, BOUND)
            assert outcome(server, quote, "app").code is of_enclave


def _put(place: Path, collateral: Collateral) -> None:
    beside = place.with_suffix(".new")
    beside.write_bytes(write_collateral(collateral))
    beside.replace(place)


def test_a_pccs_gives_the_collateral_of_both_kinds(tmp_path: Path) -> None:
    ca, pccs = tmp_path / "ca.pem", PccsServer([])
    ca.write_bytes(pccs.ca_pem)
    with pccs:
        words = ("--pccs", pccs.url, "--pccs-ca", str(ca))
        server = Server(tmp_path / "data", arguments=words)
        with server:
            machine = machine_of(server)
            pccs.served = [ServedCollateral(machine.collateral)]
            with server.client() as client:  # fetches the collateral of the coordinator's own quote
                assert client.set_manifest(manifest()).status == 200
            assert outcome(server, machine.workload_quote(ENCLAVE, BOUND), "app").code is OK
            ended = outcome(server, machine.td_quote(VM, BOUND))
            assert ended.code is UNAVAILABLE
            assert "tdx-511151115111-platform" in ended.message
        assert _kept(server) == {"sgx-511151115111-platform.json"}
        pccs.served.append(ServedCollateral(machine.td_collateral))
        with server:
            for _ in range(2):
                assert outcome(server, machine.td_quote(VM, BOUND)).code is OK
            assert outcome(server, machine.workload_quote(ENCLAVE, BOUND), "app").code is OK
    asked = [path for path in pccs.asked if path.startswith("/tdx/certification/v4/tcb?")]
    assert len(asked) == 2  # once without effect
    assert _kept(server) == {f"{tee}-511151115111-platform.json" for tee in ("sgx", "tdx")}


def _kept(server: Server) -> set[str]:
    return {path.name for path in (server.data / "collateral").iterdir()}
