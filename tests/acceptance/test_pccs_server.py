"""A real coordinator fetches its collateral from a PCCS, keeps it, and takes none that is older."""

import base64
import shutil
from pathlib import Path
from urllib.request import urlopen

import pytest
from keyhouse_tests_command import refused_start, run
from keyhouse_tests_deployment import manifest
from keyhouse_tests_server import Client, Reply, Server, free_port

from keyhouse.attestation import read_collateral, read_facts
from keyhouse_simulation import Parameters, QeIdentity, SimulatedPlatform, TcbInfo
from keyhouse_simulation.pccs import PccsServer, Served
from keyhouse_simulation.record import read_record

pytestmark = pytest.mark.acceptance

GATE = manifest(FeatureGates=["SignQuoteEndpoint"])
FETCH = 4  # requests of one
STRANGER = (Path(__file__).parent.parent / "attestation/vectors/sgx_quote").read_bytes()
NEWER = Parameters(
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
    pccs = PccsServer([Served(old)])
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
        pccs.served = [Served(SimulatedPlatform(machine, NEWER).collateral)]
        with server, server.client() as client:
            assert submit(client, quote).status == 200
        shutil.copytree(kept, tmp_path / "new")
    # The PCCS is gone, and the host brings back what was kept before: it is in its time still.
    shutil.rmtree(kept)
    shutil.copytree(tmp_path / "old", kept)
    with server, server.client() as client:
        refused = submit(client, quote)
        assert refused.status == 503
        assert "there is no collateral for sgx-511151115111-platform" in refused.envelope["message"]
    shutil.rmtree(kept)
    shutil.copytree(tmp_path / "new", kept)
    with server, server.client() as client:
        assert submit(client, quote).status == 200
        assert client.get("/api/v2/status").status == 200


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--pccs", "http://localhost:1"), "the address of the PCCS cannot be used"),
        (("--pccs", "https://localhost:1", "--pccs-ca", "missing.pem"), "missing.pem, cannot be"),
        (("--pccs", "https://localhost:1", "--collateral", "b.json"), "come from two places"),
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
