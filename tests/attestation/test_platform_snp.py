"""The platform ``snp``, over a directory that behaves like configfs-tsm."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.samples.snp_vms import SNP, collateral, snp_of

from keyhouse.attestation import NoSealingKeyError, PlatformUnusableError, SealPolicy, Verifier
from keyhouse.attestation.platforms.files import QuoteNotMadeError
from keyhouse.attestation.platforms.tsm import ReportFolders, SnpPlatform, open_snp
from keyhouse.wire.kinds.snp import SnpIdentity
from keyhouse_simulation import QuotedSnp, SimulatedPlatform, make_machine
from keyhouse_simulation.platform import utc_now
from keyhouse_simulation.tsm import TsmReports

MACHINE = SimulatedPlatform(make_machine(utc_now()))
DATA = b"d" * 64


def opened(
    tmp_path: Path, quote: Callable[[bytes], bytes], provider: bytes = b"sev_guest\n"
) -> SnpPlatform:
    tsm = TsmReports(quote, provider)
    return open_snp(tmp_path / "report", ReportFolders(tsm.make, tsm.remove))


def test_a_report_comes_with_its_certificates_and_verifies(tmp_path: Path) -> None:
    platform = opened(tmp_path, lambda data: MACHINE.snp_quote(None, data))
    quote = platform.quote(DATA)
    found = Verifier(MACHINE.root_ca, MACHINE.amd_roots).verify(quote, collateral, utc_now())
    assert found.report_data == DATA
    assert (platform.kind, platform.is_library_os) == ("snp", False)
    with pytest.raises(NoSealingKeyError):
        platform.sealing_key(SealPolicy.PRODUCT_KEY)
    with pytest.raises(PlatformUnusableError, match="measurements of an enclave"):
        _ = platform.measurements


def test_without_certificates_the_report_stands_alone(tmp_path: Path) -> None:
    platform = opened(tmp_path, lambda data: MACHINE.chip.report(QuotedSnp(), data))
    assert len(platform.quote(DATA)) == 1184


@pytest.mark.parametrize(
    ("quote", "problem"),
    [
        (lambda _: MACHINE.snp_quote(None, DATA), "other report data"),
        (lambda data: MACHINE.td_quote(None, data), "not a report of SEV-SNP"),
        (
            lambda data: MACHINE.chip.report(QuotedSnp(policy=b"\0\0\x0b\0\0\0\0\0"), data),
            "debugged",
        ),
        (lambda data: MACHINE.chip.report(QuotedSnp(version=9), data), "cannot be used"),
    ],
)
def test_what_is_no_report_of_this_vm_is_refused(
    tmp_path: Path, quote: Callable[[bytes], bytes], problem: str
) -> None:
    with pytest.raises(PlatformUnusableError, match=problem):
        opened(tmp_path, quote)


def test_another_provider_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlatformUnusableError, match="sev_guest"):
        opened(tmp_path, lambda data: MACHINE.snp_quote(None, data), b"tdx_guest\n")


def test_a_host_that_makes_no_report_now_may_do_so_later(tmp_path: Path) -> None:
    with pytest.raises(QuoteNotMadeError):
        opened(tmp_path, lambda _: b"")


def test_the_simulated_machine_is_seen_through_the_same_directory() -> None:
    identity = SnpIdentity(measurement="ab" * 48, host_data=SNP["HostData"], vmpl=2)
    platform = MACHINE.seen_by(identity)
    verifier = Verifier(platform.root_ca, platform.amd_roots)
    found = verifier.verify(platform.quote(DATA), collateral, utc_now())
    assert (snp_of(found).measurement, snp_of(found).vmpl) == (b"\xab" * 48, 2)
    assert replace(snp_of(found), vmpl=0).host_data.hex() == SNP["HostData"]
