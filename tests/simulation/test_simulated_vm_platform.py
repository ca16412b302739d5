"""The platform ``tdx`` over a directory that behaves like configfs-tsm, and never anything else."""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.samples.confidential_vms import td_of

from keyhouse.attestation import (
    INTEL_SGX_ROOT,
    Platform,
    PlatformMissingError,
    PlatformUnusableError,
    QuoteRefusedError,
    Verifier,
    quote_binding,
)
from keyhouse.attestation.platforms.files import QuoteNotMadeError, read_file, write_file
from keyhouse.attestation.platforms.find import open_for_quotes
from keyhouse.attestation.platforms.tsm import ReportFolders, open_tdx
from keyhouse.launcher import make_credentials, quote_over, read_names
from keyhouse.wire.kinds.tdx import TdxIdentity
from keyhouse_simulation import QuotedTd, SimulatedPlatform, make_machine
from keyhouse_simulation.confidential_vm import SimulatedVm
from keyhouse_simulation.platform import utc_now
from keyhouse_simulation.tsm import TsmReports

MACHINE = SimulatedPlatform(make_machine(utc_now()))
CERTIFICATE = make_credentials(read_names("localhost")).certificate
NAMED = TdxIdentity(mrtd="ab" * 48, rtmr2="cd" * 48, mr_owner="ef" * 48)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory for temporary files, in which nothing may be left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("temporary")
def test_it_quotes_the_vm_that_was_named_and_fills_in_what_was_not() -> None:
    platform: Platform = MACHINE.seen_by(NAMED)
    raw = quote_over(CERTIFICATE, platform)
    found = Verifier(MACHINE.root_ca).verify(raw, MACHINE.td_collateral, utc_now())
    identity = td_of(found).identity
    assert (identity.mrtd, identity.rtmr2, identity.mr_owner) == ("ab" * 48, "cd" * 48, "ef" * 48)
    other = QuotedTd()
    assert (identity.rtmr1, identity.mr_seam) == (other.rtmrs[1].hex(), other.mrseam.hex())
    assert (platform.kind, platform.root_ca) == ("simulation", MACHINE.root_ca)


def test_the_directory_counts_writes_and_quotes_what_was_written_last(tmp_path: Path) -> None:
    tsm = TsmReports(lambda asked: b"quote over " + asked)
    folder = tmp_path / "report" / "one"
    tsm.make(folder)
    for writes in range(3):
        assert read_file(folder / "generation", limit=10) == b"%d\n" % writes
        write_file(folder / "inblob", b"%d" % writes * 64)
    for _ in range(2):
        assert read_file(folder / "outblob", limit=99) == b"quote over " + b"2" * 64
    assert read_file(folder / "provider", limit=99) == b"tdx_guest\n"
    tsm.remove(folder)
    assert list(tmp_path.iterdir()) == []


def test_the_directory_gives_no_quote_before_there_is_something_to_quote(tmp_path: Path) -> None:
    tsm = TsmReports(lambda asked: b"quote over " + asked)
    tsm.make(tmp_path / "report")
    assert read_file(tmp_path / "report" / "outblob", limit=99) == b""
    write_file(tmp_path / "report" / "inblob", b"short")
    assert read_file(tmp_path / "report" / "outblob", limit=99) == b""
    tsm.remove(tmp_path / "report")


class Rival:
    """Makes quotes; another process writes to the report before so many of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.times = folder, 0

    def __call__(self, asked: bytes) -> bytes:
        if self.times:
            self.times -= 1
            [inblob] = self.folder.glob("keyhouse-simulated-tsm-*/keyhouse-*/inblob")
            write = 'printf %064d 0 > "$0"'
            subprocess.run(["/bin/sh", "-c", write, str(inblob)], check=True)
            asked = b"0" * 64
        return MACHINE.td_quote(None, asked)


@pytest.mark.parametrize("times", [1, 2])
def test_another_writer_in_between_is_noticed_and_the_quote_is_asked_for_again(
    temporary: Path, times: int
) -> None:
    rival = Rival(temporary)
    vm = SimulatedVm(rival, MACHINE)
    rival.times = times
    raw = quote_over(CERTIFICATE, vm)
    found = Verifier(MACHINE.root_ca).verify(raw, MACHINE.td_collateral, utc_now())
    assert found.report_data[:32] == quote_binding(CERTIFICATE)
    assert rival.times == 0


def test_another_writer_that_does_not_stop_is_given_up(temporary: Path) -> None:
    rival = Rival(temporary)
    vm = SimulatedVm(rival, MACHINE)
    rival.times = 100
    with pytest.raises(QuoteNotMadeError, match="another program"):
        quote_over(CERTIFICATE, vm)
    assert rival.times == 97


def test_the_platform_of_the_hardware_takes_no_quote_of_a_simulation(tmp_path: Path) -> None:
    tsm = TsmReports(lambda asked: MACHINE.td_quote(None, asked))
    with pytest.raises(PlatformUnusableError, match="vendor's root"):
        open_tdx(tmp_path / "report", ReportFolders(tsm.make, tsm.remove))
    quote, collateral = MACHINE.td_quote(None, bytes(64)), MACHINE.td_collateral
    with pytest.raises(QuoteRefusedError, match="pinned root"):
        Verifier(INTEL_SGX_ROOT).verify(quote, collateral, utc_now())


@pytest.mark.parametrize(
    "variable", ["TMPDIR", "KEYHOUSE_TSM_REPORTS", "TSM_REPORTS", "KEYHOUSE_SIMULATION"]
)
def test_no_variable_moves_the_directory_of_the_hardware(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, str(tmp_path))
    asked: list[Path] = []

    def exists(path: Path) -> bool:
        asked.append(path)
        return False

    with pytest.raises(PlatformMissingError, match="/sys/kernel/config/tsm/report"):
        open_for_quotes("tdx", tmp_path, exists=exists)
    with pytest.raises(PlatformMissingError, match="identity"):
        open_for_quotes("tdx", tmp_path, simulated=NAMED, exists=exists)
    assert asked == [Path("/sys/kernel/config/tsm/report")]
