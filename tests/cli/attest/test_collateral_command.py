"""`keyhouse collateral` as people type it, against a real PCCS."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.process.command import run
from support.samples.collateral import recorded

from keyhouse.attestation import TcbStatus, read_collateral, report_data, write_collateral
from keyhouse_simulation import (
    Lists,
    QeIdentity,
    QuoteParameters,
    SimulatedPlatform,
    TcbInfo,
    make_machine,
)
from keyhouse_simulation.machine import pem
from keyhouse_simulation.pccs import PccsServer, ServedCollateral

SGX, SGX_COLLATERAL = recorded("sgx_quote")


class Air:
    """Files of a site, and a PCCS that knows its simulated machine."""

    def __init__(self, folder: Path) -> None:
        now = datetime.now(UTC)
        self.folder = folder
        self.machine = make_machine(now)
        self.platform = SimulatedPlatform(self.machine)
        self.pccs = PccsServer(
            [
                ServedCollateral(self.platform.collateral),
                ServedCollateral(self.platform.td_collateral),
            ]
        )
        self.root = self._file("root.pem", pem(self.machine.root).encode())
        self.ca = self._file("ca.pem", self.pccs.ca_pem)
        self.quote = self._file("quote", self.platform.quote(report_data(bytes(32))))
        self.td_quote = self._file("td-quote", self.platform.td_quote(None, bytes(64)))
        self.bundle = self._file("bundle.json", write_collateral(self.platform.collateral))

    def _file(self, name: str, content: bytes) -> str:
        path = self.folder / name
        path.write_bytes(content)
        return str(path)

    def bent(self, parameters: QuoteParameters) -> str:
        """Return a file with the machine's collateral, but for ``parameters``."""
        collateral = SimulatedPlatform(self.machine, parameters).collateral
        return self._file("bent.json", write_collateral(collateral))


@pytest.fixture(scope="module")
def air(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Air]:
    site = Air(tmp_path_factory.mktemp("air"))
    with site.pccs:
        yield site


def test_a_bundle_is_fetched_for_a_quote_and_checks(air: Air, tmp_path: Path) -> None:
    output = str(tmp_path / "fetched.json")
    to_pccs = ("--pccs", air.pccs.url, "--pccs-ca", air.ca, "--simulation-root", air.root)
    ended = run("collateral", "fetch", air.quote, *to_pccs, "-o", output)
    assert (ended.code, ended.out) == (0, ""), ended.err
    assert "sgx-511151115111-platform; expires at 20" in ended.err
    assert Path(output).read_bytes() == write_collateral(air.platform.collateral)
    checked = run(
        "collateral", "check", output, "--quote", air.quote, "--simulation-root", air.root
    )
    assert checked.code == 0, checked.err
    assert "verifies: UpToDate" in checked.out
    assert "SIMULATION" in checked.out
    again = run("collateral", "fetch", air.quote, *to_pccs, "-o", output)
    assert again.code == 1
    assert "do not overwrite files" in again.err


def test_a_bundle_is_fetched_for_an_fmspc_to_standard_output(air: Air) -> None:
    to_pccs = ("--pccs", air.pccs.url, "--pccs-ca", air.ca, "--simulation-root", air.root)
    ended = run("collateral", "fetch", "--fmspc", "511151115111", *to_pccs)
    assert (ended.code, ended.out.encode()) == (0, write_collateral(air.platform.collateral))
    unknown = run("collateral", "fetch", "--fmspc", "000000000000", *to_pccs)
    assert (unknown.code, unknown.out) == (3, "")
    assert "sgx/certification/v4/tcb" in unknown.err


def test_confidential_vms_on_the_same_machine_have_a_bundle_of_their_own(
    air: Air, tmp_path: Path
) -> None:
    output = str(tmp_path / "fetched.json")
    Path(output).write_bytes(write_collateral(air.platform.td_collateral))
    to_pccs = ("--pccs", air.pccs.url, "--pccs-ca", air.ca, "--simulation-root", air.root)
    for platform in ((air.td_quote,), ("--fmspc", "511151115111", "--tee", "tdx")):
        ended = run("collateral", "fetch", *platform, *to_pccs)
        assert (ended.code, ended.out.encode()) == (0, write_collateral(air.platform.td_collateral))
        assert "tdx-511151115111-platform; expires at 20" in ended.err
    root = ("--simulation-root", air.root)
    checked = run("collateral", "check", output, "--quote", air.td_quote, *root)
    assert checked.code == 0, checked.err
    assert "verifies: UpToDate" in checked.out
    for bundle, quote in ((air.bundle, air.td_quote), (output, air.quote)):
        crossed = run("collateral", "check", bundle, "--quote", quote, *root)
        assert crossed.code == 1
        assert "the collateral is for " in crossed.err


def test_tomorrows_collateral_is_fetched_early(air: Air) -> None:
    to_pccs = ("--pccs", air.pccs.url, "--pccs-ca", air.ca, "--simulation-root", air.root)
    to_come = QuoteParameters(
        tcb_info=TcbInfo(evaluation_number=2, status=TcbStatus.OUT_OF_DATE),
        qe_identity=QeIdentity(evaluation_number=2),
    )
    early = SimulatedPlatform(air.machine, to_come).collateral
    before, air.pccs.served = (
        air.pccs.served,
        [ServedCollateral(air.platform.collateral, early=early)],
    )
    try:
        tomorrow = run("collateral", "fetch", air.quote, *to_pccs, "--early")
        today = run("collateral", "fetch", air.quote, *to_pccs)
    finally:
        air.pccs.served = before
    found = read_collateral(tomorrow.out.encode())
    assert (found.tcb_info, found.qe_identity) == (early.tcb_info, early.qe_identity)
    assert today.out.encode() == write_collateral(air.platform.collateral)


def test_a_pccs_under_another_ca_gives_nothing(air: Air) -> None:
    ended = run("collateral", "fetch", "--fmspc", "511151115111", "--pccs", air.pccs.url)
    assert (ended.code, ended.out) == (3, "")
    assert "not trusted" in ended.err
    assert "--pccs-ca" in ended.err


def test_collateral_of_another_vendor_is_not_written(air: Air, tmp_path: Path) -> None:
    output = tmp_path / "none.json"
    words = ("--fmspc", "511151115111", "--pccs", air.pccs.url, "--pccs-ca", air.ca)
    ended = run("collateral", "fetch", *words, "-o", str(output))
    assert ended.code == 1
    assert "pinned root" in ended.err
    assert not output.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("quote",), "needs the URL of a PCCS"),
        (("--pccs", "https://a"), "no kind of platform"),
        (
            ("quote", "--fmspc", "511151115111", "--pccs", "https://a"),
            "two kinds of platform",
        ),
        (("--fmspc", "5111", "--pccs", "https://a"), "is not an FMSPC"),
        (("--fmspc", "511151115111", "--pccs", "http://a"), "address of the PCCS"),
        (("--fmspc", "511151115111", "--pccs", "https://a", "--pccs-ca", "/dev/null"), "is empty"),
        (("/dev/null", "--pccs", "https://a"), "malformed"),
    ],
)
def test_words_that_cannot_be_meant_are_refused(words: tuple[str, ...], said: str) -> None:
    ended = run("collateral", "fetch", *words)
    assert (ended.code, ended.out) == (1, "")
    assert said in ended.err
    assert "Traceback" not in ended.err


def test_show_tells_what_a_bundle_says_and_that_nothing_was_checked(tmp_path: Path) -> None:
    path = tmp_path / "intel.json"
    path.write_bytes(write_collateral(SGX_COLLATERAL))
    shown = run("collateral", "show", str(path))
    assert shown.code == 0
    assert "SGX  FMSPC 00a067110000  processor CA" in shown.out
    assert "2025-07-19T10:01:18Z  QE identity" in shown.out
    assert "none: use check" in shown.out
    as_json = json.loads(run("collateral", "show", str(path), "--json").out)
    assert as_json == {
        "tee": "sgx",
        "fmspc": "00a067110000",
        "ca": "processor",
        "issued": "2025-06-19T10:56:11Z",
        "expires": "2025-07-19T10:01:18Z",
        "endsFirst": "QE identity",
        "evaluationNumber": 17,
        "rootCrlNumber": 1,
        "pckCrlNumber": 1,
    }


def test_check_refuses_what_has_expired(tmp_path: Path) -> None:
    path = tmp_path / "intel.json"
    path.write_bytes(write_collateral(SGX_COLLATERAL))
    ended = run("collateral", "check", str(path))
    assert (ended.code, ended.out) == (1, "")
    assert "2025-07-19T10:01:18Z (QE identity)" in ended.err


def test_check_refuses_another_root_another_platform_and_a_bad_signature(air: Air) -> None:
    intel = run("collateral", "check", air.bundle)
    assert intel.code == 1
    assert "pinned root" in intel.err
    other = air.bent(QuoteParameters(tcb_info=TcbInfo(fmspc=bytes(6))))
    wrong = run("collateral", "check", other, "--quote", air.quote, "--simulation-root", air.root)
    assert wrong.code == 1
    assert "FMSPC 000000000000" in wrong.err
    revoked = air.bent(QuoteParameters(lists=Lists(revokes_pck=True)))
    out = run("collateral", "check", revoked, "--quote", air.quote, "--simulation-root", air.root)
    assert out.code == 1
    assert "revoked" in out.err
    future = air.bent(QuoteParameters(tcb_info=TcbInfo(issued_ago=-timedelta(days=1))))
    early = run("collateral", "check", future, "--simulation-root", air.root)
    assert early.code == 1
    assert "is not valid before" in early.err


def test_check_with_json_gives_one_object(air: Air) -> None:
    words = (air.bundle, "--quote", air.quote, "--simulation-root", air.root, "--json")
    found = json.loads(run("collateral", "check", *words).out)
    assert (found["tcbStatus"], found["simulation"]) == ("UpToDate", True)
