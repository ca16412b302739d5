"""A real coordinator fetches its collateral from a PCCS, keeps it, and takes none that is older."""

import base64
import shutil
from pathlib import Path
from urllib.request import urlopen

import grpc
import pytest
from msgspec.structs import replace
from support.peers.workloads import WORKLOAD, grpcio, request
from support.process.command import refused_start, run
from support.process.server import Client, Reply, Server, free_port
from support.samples.deployment import manifest
from support.samples.updates import together

from keyhouse.attestation import (
    Measurements,
    quote_binding,
    read_collateral,
    read_facts,
    report_data,
)
from keyhouse_simulation import (
    Machine,
    Pck,
    QeIdentity,
    QuoteParameters,
    SimulatedPlatform,
    TcbInfo,
)
from keyhouse_simulation.certificates import issue_leaf, pck_extension
from keyhouse_simulation.pccs import PccsServer, ServedCollateral
from keyhouse_simulation.record import read_record

pytestmark = pytest.mark.acceptance

GATE = manifest(FeatureGates=["SignQuoteEndpoint"])
FETCH = 4  # requests of one
STRANGER = (Path(__file__).parents[2] / "attestation/vectors/sgx_quote").read_bytes()
NEWER = QuoteParameters(
    tcb_info=TcbInfo(evaluation_number=2), qe_identity=QeIdentity(evaluation_number=2)
)


def submit(client: Client, quote: bytes) -> Reply:
    return client.post("/api/v2/sign-quote", {"sgxQuote": base64.b64encode(quote).decode()})


def own_quote(client: Client) -> bytes:
    return base64.b64decode(client.get("/api/v2/quote?nonce=AAAA").data["quote"])


def test_collateral_is_fetched_kept_and_never_older_than_before(tmp_path: Path) -> None:
    data, ca = tmp_path / "data", tmp_path / "ca.pem"
    with Server(data) as first, first.client() as client:
        assert client.set_manifest(GATE).status == 200
        quote = own_quote(client)
    old = read_collateral((data / "simulation" / "collateral.json").read_bytes())
    machine = read_record((data / "simulation" / "machine.json").read_bytes())
    pccs = PccsServer([ServedCollateral(old)])
    ca.write_bytes(pccs.ca_pem)
    with pccs:
        words = ("--pccs", pccs.url, "--pccs-ca", str(ca))
        metrics = free_port()
        server = Server(data, arguments=(*words, "--metrics-addr", f"127.0.0.1:{metrics}"))
        with server, server.client() as client:
            refused = submit(client, STRANGER)
            assert (refused.status, pccs.asked) == (400, [])
            assert "root" in refused.envelope["data"]["sgxQuote"]
            assert submit(client, quote).status == 200
            assert submit(client, quote).status == 200
            assert len(pccs.asked) == FETCH
            with urlopen(f"http://127.0.0.1:{metrics}/metrics") as answer:
                lines = answer.read().decode().splitlines()
            assert 'keyhouse_collateral_fetches_total{outcome="fetched"} 1.0' in lines
            end = next(line for line in lines if line.startswith("keyhouse_collateral_expiry"))
            assert float(end.split()[1]) == read_facts(old).expires.timestamp()
        assert "fetched collateral" in server.logged()
        kept = data / "collateral"
        shutil.copytree(kept, tmp_path / "old")
        shutil.rmtree(kept)
        pccs.served = [ServedCollateral(SimulatedPlatform(machine, NEWER).collateral)]
        with server, server.client() as client:
            assert submit(client, quote).status == 200
        shutil.copytree(kept, tmp_path / "new")
    # The PCCS is gone, and the host brings back what was kept before: it is in its time still.
    shutil.rmtree(kept)
    shutil.copytree(tmp_path / "old", kept)
    with server, server.client() as client:
        refused = submit(client, quote)
        assert refused.status == 503
        assert "sgx-511151115111-platform" in refused.envelope["message"]
    shutil.rmtree(kept)
    shutil.copytree(tmp_path / "new", kept)
    with server, server.client() as client:
        assert submit(client, quote).status == 200
        assert client.get("/api/v2/status").status == 200


def workload_quote(machine: Machine) -> bytes:
    """Return the quote of a workload of the package ``app`` that runs there."""
    who = Measurements(
        unique_id=bytes(32), signer_id=b"\xab" * 32, product_id=7, security_version=3
    )
    bound = report_data(quote_binding(WORKLOAD.certificate))
    return SimulatedPlatform(machine).workload_quote(who, bound)


def of_another_kind(machine: Machine) -> Machine:
    """Return a machine by the same vendor of which the PCCS knows nothing."""
    issuer = ("Keyhouse Simulation PCK Platform CA", machine.pck_ca_key)
    extension = pck_extension(Pck(fmspc=bytes(6)))
    start = machine.pck.not_valid_before_utc
    return replace(machine, pck=issue_leaf("PCK", machine.pck_key, issuer, start, extension))


def test_workloads_join_with_quotes_whose_collateral_is_fetched(tmp_path: Path) -> None:
    ca, pccs = tmp_path / "ca.pem", PccsServer([])
    ca.write_bytes(pccs.ca_pem)
    with (
        pccs,
        Server(tmp_path / "data", arguments=("--pccs", pccs.url, "--pccs-ca", str(ca))) as server,
    ):
        simulation = server.data / "simulation"
        machine = read_record((simulation / "machine.json").read_bytes())
        pccs.served = [
            ServedCollateral(read_collateral((simulation / "collateral.json").read_bytes()))
        ]
        with server.client() as client:
            assert client.set_manifest(together()).status == 200
        assert len(pccs.asked) == FETCH  # for the own quote of the manifest
        good = workload_quote(machine)
        bent = good[:400] + bytes([good[400] ^ 1]) + good[401:]
        with grpcio(server.mesh_port) as channel:

            def outcome(quote: bytes) -> grpc.StatusCode:
                return channel.call(request(Quote=quote)).code

            assert outcome(STRANGER) is grpc.StatusCode.PERMISSION_DENIED
            assert len(pccs.asked) == FETCH
            assert outcome(bent) is grpc.StatusCode.PERMISSION_DENIED
            assert outcome(good) is grpc.StatusCode.OK
            assert len(pccs.asked) == FETCH
            assert outcome(workload_quote(of_another_kind(machine))) is grpc.StatusCode.UNAVAILABLE
            asked = len(pccs.asked)
            assert outcome(workload_quote(machine)) is grpc.StatusCode.OK
            assert len(pccs.asked) == asked


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--pccs", "http://localhost:1"), "the address of the PCCS is not of the form"),
        (
            ("--pccs", "https://localhost:1", "--pccs-ca", "missing.pem"),
            "missing.pem with the CA of the PCCS cannot be",
        ),
        (
            ("--pccs", "https://localhost:1", "--collateral", "b.json"),
            "both name a source of collateral",
        ),
        (("--pccs-ca", "ca.pem"), "--pccs-ca has no effect here"),
    ],
    ids=["plain", "no CA", "two places", "CA alone"],
)
def test_a_pccs_that_cannot_be_meant_stops_the_start(
    tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    assert problem in refused_start(tmp_path / "data", *words).error
    place = ("--platform", "simulation", "--data-dir", str(tmp_path / "other"))
    checked = run("serve", *place, *words, "--check-config")
    assert checked.code == 1
    assert problem in checked.out


def test_no_variable_names_a_pccs_or_its_ca(tmp_path: Path) -> None:
    names = ("KEYHOUSE_PCCS", "KEYHOUSE_PCCS_CA", "PCCS_URL", "AZDCAP_BASE_CERT_URL")
    place = ("--platform", "simulation", "--data-dir", str(tmp_path / "data"))
    checked = run("serve", *place, "--check-config", env=dict.fromkeys(names, "nonsense"))
    assert (checked.code, checked.out.endswith("ok\n")) == (0, True)
