"""`keyhouse attest explain`: recorded quotes of real machines, judged by manifests at any time."""

import base64
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from support.process.command import Ended, run
from support.samples.confidential_vms import TDX
from support.samples.snp_vms import SNP, VM

from keyhouse.attestation import TcbStatus, report_data, write_collateral
from keyhouse_simulation import (
    COORDINATOR,
    QuoteParameters,
    SimulatedPlatform,
    TcbInfo,
    make_machine,
    open_platform,
)

VECTORS = Path(__file__).parents[2] / "attestation" / "vectors"
BUNDLE = VECTORS / "sgx_quote_collateral.json"
ENCLAVE = "33d8736db756ed4997e04ba358d27833188f1932ff7b1d156904d3f560452fbb"
SIGNER = "815f42f11cf64430c30bab7816ba596a1da0130c3b028b673133a66cf9a3e0e6"
STATUS = "ConfigurationAndSWHardeningNeeded"


def manifest_file(folder: Path, **packages: dict[str, object]) -> str:
    """Return a manifest file with these packages and a marble for each."""
    marbles = {f"{name}-marble": {"Package": name} for name in packages}
    path = folder / "manifest.json"
    path.write_text(json.dumps({"Packages": packages, "Marbles": marbles}))
    return str(path)


def explain(quote: Path, *words: str, at: str = "2025-07-01") -> Ended:
    return run("attest", "explain", str(quote), "--at", at, *words)


def explained(quote: Path, *words: str, at: str = "2025-07-01") -> tuple[int, Any]:
    """Return the exit code and what ``--json`` printed."""
    ended = explain(quote, *words, "--json", at=at)
    return ended.code, json.loads(ended.out)


def test_a_verified_quote_is_told_with_its_platform_and_enclave() -> None:
    code, found = explained(VECTORS / "sgx_quote", "--collateral", str(BUNDLE))

    assert code == 0
    assert found["verified"] is True
    assert found["refused"] is None
    assert found["at"] == "2025-07-01T00:00:00Z"
    platform = found["platform"]
    assert (platform["tcbStatus"], platform["fmspc"]) == (STATUS, "00a067110000")
    assert platform["advisories"] == ["INTEL-SA-00289", "INTEL-SA-00615"]
    assert found["quote"]["uniqueID"] == ENCLAVE
    assert found["quote"]["signerID"] == SIGNER
    assert found["packages"] == {}


def test_packages_that_admit_it_and_why_others_do_not(tmp_path: Path) -> None:
    file = manifest_file(
        tmp_path,
        tolerant={"UniqueID": ENCLAVE, "AcceptedTCBStatuses": [STATUS]},
        strict={"UniqueID": ENCLAVE},
        newer={"SignerID": SIGNER, "ProductID": 0, "SecurityVersion": 1},
    )
    words = ("--collateral", str(BUNDLE), "--manifest", file)

    code, found = explained(VECTORS / "sgx_quote", *words)

    assert code == 0
    packages = found["packages"]
    assert packages["tolerant"] == {
        "admitted": True,
        "isEnclave": True,
        "marbles": ["tolerant-marble"],
        "reasons": [],
    }
    assert [each["rule"] for each in packages["strict"]["reasons"]] == ["AcceptedTCBStatuses"]
    assert packages["strict"]["isEnclave"] is True
    rules = [each["rule"] for each in packages["newer"]["reasons"]]
    assert rules == ["AcceptedTCBStatuses", "SecurityVersion"]
    assert packages["newer"]["isEnclave"] is False

    text = explain(VECTORS / "sgx_quote", *words).out
    assert "admits it (for tolerant-marble)" in text
    assert (
        f"STOPS it (for strict-marble): AcceptedTCBStatuses: the platform's TCB status is {STATUS}"
        in text
    )
    assert "is for another enclave (for newer-marble)" in text


def test_no_package_that_admits_it_is_an_exit_code(tmp_path: Path) -> None:
    file = manifest_file(tmp_path, strict={"UniqueID": ENCLAVE})

    ended = explain(VECTORS / "sgx_quote", "--collateral", str(BUNDLE), "--manifest", file)

    assert ended.code == 1


@pytest.mark.parametrize(
    ("words", "at", "reason"),
    [
        (("--collateral", str(BUNDLE)), "2026-07-01T00:00:00+02:00", "expired"),
        (("--collateral", str(BUNDLE)), "2020-01-01", "not-yet-valid"),
        (("--collateral", str(VECTORS / "tdx_quote_collateral.json")), "2025-07-01", ""),
        ((), "2025-07-01", "no-collateral"),
    ],
)
def test_a_quote_that_is_not_verified_says_so_and_what_it_claims(
    tmp_path: Path, words: tuple[str, ...], at: str, reason: str
) -> None:
    file = manifest_file(tmp_path, any={"UniqueID": ENCLAVE, "AcceptedTCBStatuses": [STATUS]})

    code, found = explained(VECTORS / "sgx_quote", *words, "--manifest", file, at=at)

    assert code == 4
    assert found["verified"] is False
    assert reason in found["refused"]["reason"].replace("_", "-")
    assert found["quote"]["uniqueID"] == ENCLAVE
    assert (found["platform"], found["packages"]) == (None, {})


def test_a_tdx_quote_is_explained_and_matches_no_package(tmp_path: Path) -> None:
    file = manifest_file(tmp_path, any={"UniqueID": ENCLAVE})
    bundle = str(VECTORS / "tdx_quote_collateral.json")

    code, found = explained(VECTORS / "tdx_quote", "--collateral", bundle, "--manifest", file)

    assert code == 1
    assert found["platform"]["tcbStatus"] == "UpToDate"
    assert found["quote"]["mrtd"].startswith("91eb2b44d141d4ec")
    assert [each["rule"] for each in found["packages"]["any"]["reasons"]] == ["Tee"]


def test_packages_of_confidential_vms_admit_a_tdx_quote_or_say_what_differs(
    tmp_path: Path,
) -> None:
    file = manifest_file(
        tmp_path,
        exact={"TDX": TDX},
        loose={"TDX": {"MRTD": TDX["MRTD"]}},
        other={"TDX": {**TDX, "RTMR1": "ab" * 48, "RTMR2": "cd" * 48}},
        enclave={"UniqueID": ENCLAVE},
    )
    bundle = str(VECTORS / "tdx_quote_collateral.json")
    words = ("--collateral", bundle, "--manifest", file)

    code, found = explained(VECTORS / "tdx_quote", *words)

    assert code == 0
    assert found["quote"]["tdx"] == TDX
    packages = found["packages"]
    assert [name for name, each in packages.items() if each["admitted"]] == ["exact", "loose"]
    assert [each["rule"] for each in packages["other"]["reasons"]] == ["TDX.RTMR1", "TDX.RTMR2"]
    text = explain(VECTORS / "tdx_quote", *words).out
    assert f"\nRTMR1             {TDX['RTMR1']}\n" in text
    assert "(x87, SSE, AVX, AVX-512 masks" in text
    assert "is for another confidential VM (for other-marble): TDX.RTMR1" in text

    code, found = explained(VECTORS / "sgx_quote", "--collateral", str(BUNDLE), "--manifest", file)
    assert code == 1
    assert [each["rule"] for each in found["packages"]["exact"]["reasons"]][-1] == "Tee"


def test_a_report_of_amd_is_explained_with_its_own_files(tmp_path: Path) -> None:
    folder = tmp_path / "simulation"
    machine = open_platform(folder, now=lambda: datetime(2025, 7, 1, tzinfo=UTC))
    (tmp_path / "quote").write_bytes(machine.snp_quote(VM, bytes(64)))
    other = {**SNP, "HostData": "00" * 32, "MinimumTCB": {**SNP["MinimumTCB"], "SNP": 24}}
    other["MinimumGuestSVN"] = 8
    file = manifest_file(tmp_path, exact={"SNP": SNP}, other={"SNP": other}, td={"TDX": TDX})
    words = ("--simulation-root", str(folder / "root.pem"), "--manifest", file)

    code, found = explained(tmp_path / "quote", *words)

    assert (code, found["verified"], found["platform"]["tcbStatus"]) == (0, True, None)
    assert found["quote"]["snp"]["MinimumTCB"] == SNP["MinimumTCB"]
    packages = found["packages"]
    assert [name for name, each in packages.items() if each["admitted"]] == ["exact"]
    reasons = [each["rule"] for each in packages["other"]["reasons"]]
    assert reasons == ["SNP.HostData", "SNP.MinimumTCB", "SNP.MinimumGuestSVN"]
    assert "Tee" in [each["rule"] for each in packages["td"]["reasons"]]
    text = explain(tmp_path / "quote", *words).out
    assert "AMD states no status" in text
    assert "(ABI 0.31, SMT, always 1)" in text
    assert "8 or higher" in text
    assert re.search(r"^ *AliasCheckComplete:? +true$", text, re.MULTILINE)

    (folder / "amd.pem").unlink()
    code, found = explained(tmp_path / "quote", *words)
    assert (code, found["refused"]["reason"]) == (4, "no-collateral")
    code, found = explained(VECTORS / "snp_report", "--amd-collateral", AUTHORITIES)
    assert (code, found["refused"]["reason"]) == (4, "certificate-chain")


def test_a_real_report_of_sev_snp_is_told_with_amds_own_revocation_list(tmp_path: Path) -> None:
    for name in ("snp_authorities.pem", "snp_lists.pem"):
        (tmp_path / name).write_bytes((VECTORS / name).read_bytes())
    for name, at, expected in (
        ("listed", "2022-12-01", (0, None)),
        ("listed", "2023-06-01", (4, "expired")),
        ("genoa", "2025-10-01", (4, "expired")),
        ("turin", "2025-10-01", (4, "collateral")),
    ):
        quote = VECTORS / f"snp_quote_{name}"
        code, found = explained(quote, "--amd-collateral", str(tmp_path), at=at)
        refused = found["refused"] and found["refused"]["reason"]
        assert (code, refused) == expected, (name, at)


@pytest.mark.parametrize(
    ("at", "code"), [("2022-12-01", 0), ("2023-06-01", 4)], ids=["verified", "expired"]
)
def test_a_report_of_version_2_is_told_with_the_product_of_its_certificates(
    tmp_path: Path, at: str, code: int
) -> None:
    amd = tmp_path / "amd"
    amd.mkdir()
    for name in ("snp_authorities.pem", "snp_lists.pem"):
        (amd / name).write_bytes((VECTORS / name).read_bytes())

    quote = VECTORS / "snp_quote_listed"
    ended, found = explained(quote, "--amd-collateral", str(amd), at=at)

    assert (ended, found["quote"]["snp"]["Product"]) == (code, "Milan")
    package = manifest_file(tmp_path, vm={"SNP": {**found["quote"]["snp"]}})
    words = ("--amd-collateral", str(amd), "--manifest", package)
    assert explain(quote, *words, at="2022-12-01").code == 0


def test_a_report_alone_has_no_product_and_one_that_is_unknown_is_not_shown(
    tmp_path: Path,
) -> None:
    vcek = (VECTORS / "snp_vcek_milan.der").read_bytes()
    assert vcek.count(b"Milan-B0") == 1
    file = tmp_path / "vcek.der"
    for content, product in (
        (None, None),
        (vcek, "Milan"),
        (vcek.replace(b"Milan-B0", b"Mil\x1b[-B0"), None),
    ):
        words = () if content is None else ("--amd-collateral", str(file))
        file.write_bytes(content or b"")
        code, found = explained(VECTORS / "snp_report", *words)
        assert (code, found["quote"]["snp"].get("Product")) == (4, product)


AUTHORITIES = str(VECTORS / "snp_authorities.pem")


def test_a_quote_may_come_in_base64_and_with_the_bytes_of_no_quote_it_is_refused(
    tmp_path: Path,
) -> None:
    text = tmp_path / "quote.txt"
    text.write_bytes(base64.encodebytes((VECTORS / "sgx_quote").read_bytes()))
    assert explain(text, "--collateral", str(BUNDLE)).code == 0
    for junk in (b"", b"\xff" * 700, b"no quote!"):
        text.write_bytes(junk)
        ended = explain(text, "--collateral", str(BUNDLE))
        assert ended.code == 1
        assert ended.err.startswith(f"error: {text}: the quote is malformed")


@pytest.mark.parametrize("at", ["tomorrow", "2025-07-01T00:00:00", "1969-01-01"])
def test_an_invalid_time_is_refused(at: str) -> None:
    ended = explain(VECTORS / "sgx_quote", at=at)

    assert (ended.code, ended.out) == (1, "")
    assert "is not a date or a time with a zone" in ended.err


def test_tomorrows_collateral_tells_which_workloads_a_recovery_would_stop(tmp_path: Path) -> None:
    """One machine, one quote, two bundles: before and after its vendor found something."""
    now = datetime.now(UTC)
    machine = make_machine(now - timedelta(days=2))
    root, quote = tmp_path / "root.pem", tmp_path / "quote"
    root.write_bytes(machine.root.public_bytes(Encoding.PEM))
    file = manifest_file(tmp_path, app={"UniqueID": COORDINATOR.unique_id.hex()})
    codes = {}
    for status in (TcbStatus.UP_TO_DATE, TcbStatus.OUT_OF_DATE):
        platform = SimulatedPlatform(machine, QuoteParameters(tcb_info=TcbInfo(status=status)))
        quote.write_bytes(platform.workload_quote(COORDINATOR, report_data(bytes(32))))
        bundle = tmp_path / f"{status}.json"
        bundle.write_bytes(write_collateral(platform.collateral))
        words = ("--simulation-root", str(root), "--collateral", str(bundle), "--manifest", file)
        codes[status] = explain(quote, *words, at=(now + timedelta(days=1)).isoformat()).code

    assert codes == {TcbStatus.UP_TO_DATE: 0, TcbStatus.OUT_OF_DATE: 1}
