"""Bundles in files: each quote gets that of its platform, and operators replace them in use."""

import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.captured_log import capture_logs

from keyhouse.attestation import (
    Collateral,
    CollateralUnavailableError,
    QuoteRefusedError,
    Verifier,
    write_collateral,
)
from keyhouse.attestation.sources.files import CollateralFiles
from keyhouse.base.errors import RefusedError
from keyhouse_simulation import (
    Lists,
    Pck,
    QuoteParameters,
    SimulatedPlatform,
    TcbInfo,
    make_machine,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MACHINE = make_machine(NOW - timedelta(days=30))
DATA = bytes(64)


def platform(parameters: QuoteParameters | None = None, *, days: int = 0) -> SimulatedPlatform:
    """Return the machine with collateral that was issued so many days ago."""
    return SimulatedPlatform(MACHINE, parameters, now=lambda: NOW - timedelta(days=days))


OLD = platform(days=3)
NEW = platform(QuoteParameters(lists=Lists(number=2)))
SGX, TDX = NEW.quote(DATA), NEW.td_quote(None, DATA)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path, "sgx.json", NEW.collateral)
    put(tmp_path, "tdx.json", NEW.td_collateral)
    return tmp_path


def put(folder: Path, name: str, bundle: Collateral) -> None:
    (folder / "new").write_bytes(write_collateral(bundle))
    (folder / "new").replace(folder / name)


def opened(*paths: Path) -> CollateralFiles:
    return CollateralFiles(paths, NEW.root_ca, lambda: NOW)


def test_each_quote_gets_the_bundle_of_its_platform(folder: Path) -> None:
    by_directory = opened(folder)
    by_name = opened(folder / "sgx.json", folder / "tdx.json")
    verifier = Verifier(NEW.root_ca)
    for files in (by_directory, by_name):
        for quote in (SGX, TDX):
            verifier.verify(quote, files(quote), NOW)
        assert files.expires() == NOW + timedelta(days=364)
        assert files.fetches() == {}


def test_a_single_bundle_is_for_every_quote_and_the_verifier_says_what_is_missing(
    folder: Path,
) -> None:
    collateral = opened(folder / "sgx.json")(TDX)
    with pytest.raises(QuoteRefusedError, match=r"SGX .*TDX"):
        Verifier(NEW.root_ca).verify(TDX, collateral, NOW)


def test_a_kind_without_a_bundle_is_named_with_those_that_have_one(folder: Path) -> None:
    other = make_machine(NOW, Pck(fmspc=b"\x01" * 6))
    info = QuoteParameters(tcb_info=TcbInfo(fmspc=b"\x01" * 6))
    elsewhere = SimulatedPlatform(other, info, now=lambda: NOW)
    put(folder, "sgx.json", elsewhere.collateral)
    with pytest.raises(CollateralUnavailableError) as caught:
        opened(folder)(SGX)
    missing, *there = re.findall(r"\w+-\w+-platform", caught.value.message)
    assert missing == "sgx-511151115111-platform"
    assert there == ["sgx-010101010101-platform", "tdx-511151115111-platform"]


def test_a_quote_of_another_vendor_is_refused(folder: Path) -> None:
    stranger = SimulatedPlatform(make_machine(NOW), now=lambda: NOW).td_quote(None, DATA)
    with pytest.raises(QuoteRefusedError, match="pinned root"):
        opened(folder)(stranger)


def test_the_newest_lists_serve_all_bundles(folder: Path) -> None:
    """A bundle with older lists than another quote was verified with would be refused."""
    put(folder, "sgx.json", OLD.collateral)
    found = opened(folder)(SGX)
    assert found.tcb_info == OLD.collateral.tcb_info
    assert (found.root_ca_crl, found.pck_crl) == (
        NEW.collateral.root_ca_crl,
        NEW.collateral.pck_crl,
    )
    Verifier(NEW.root_ca).verify(SGX, found, NOW)


def test_lists_that_another_root_signed_are_not_taken(folder: Path) -> None:
    strange = SimulatedPlatform(
        make_machine(NOW), QuoteParameters(lists=Lists(number=9)), now=lambda: NOW
    )
    put(folder, "tdx.json", strange.td_collateral)
    assert opened(folder)(SGX).root_ca_crl == NEW.collateral.root_ca_crl


def test_files_that_are_replaced_added_or_removed_are_read_again(folder: Path) -> None:
    (folder / "tdx.json").rename(folder / "aside")
    files = opened(folder)
    assert files(TDX) == NEW.collateral
    (folder / "aside").rename(folder / "tdx.json")
    assert files(TDX) == NEW.td_collateral
    put(folder, "sgx.json", OLD.collateral)
    assert files(SGX).tcb_info == OLD.collateral.tcb_info
    (folder / "sgx.json").unlink()
    assert files(SGX) == NEW.td_collateral


def test_a_file_whose_time_and_size_stay_is_read_again_within_a_minute(folder: Path) -> None:
    """Under Gramine the time of a file is always the same."""
    path, clock = folder / "sgx.json", [NOW]
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    files = CollateralFiles([path], NEW.root_ca, lambda: clock[0])
    changed = path.read_bytes().replace(b'"tcb_info": "{', b'"tcb_info": " ', 1)
    path.write_bytes(changed)
    os.utime(path, ns=times)
    assert files(SGX) == NEW.collateral
    clock[0] += timedelta(minutes=1)
    assert files(SGX) != NEW.collateral
    put(folder, "sgx.json", NEW.collateral)
    clock[0] -= timedelta(days=1)
    assert files(SGX) == NEW.collateral


def test_a_bad_file_in_use_is_logged_once_and_all_stays_as_it_was(folder: Path) -> None:
    files = opened(folder)
    (folder / "more.json").write_text("{")
    with capture_logs() as log:
        assert files(SGX) == NEW.collateral
        assert files(TDX) == NEW.td_collateral
    [entry] = log
    assert entry["event"] == "the collateral stays as it was"
    assert str(folder / "more.json") in entry["reason"]


def test_a_directory_in_the_place_of_a_file_is_not_kept_open(folder: Path) -> None:
    files, handles = opened(folder), Path("/proc/self/fd")
    (folder / "more.json").mkdir()
    in_use = sorted(handles.iterdir())
    with capture_logs() as log:
        assert files(SGX) == NEW.collateral
    assert re.search(r"/more\.json .*: is a directory", log[0]["reason"])
    assert sorted(handles.iterdir()) == in_use


def test_what_cannot_be_used_at_the_start_is_named(folder: Path) -> None:
    (folder / "none").mkdir()
    put(folder, "twice.json", OLD.td_collateral)
    for path, problem in (
        (folder / "none", rf"{folder / 'none'} .*\*\.json"),
        (folder, r"/twice\.json .*tdx-511151115111-platform"),
        (folder / "missing.json", r"/missing\.json .*no such file"),
    ):
        with pytest.raises(RefusedError, match=problem):
            opened(path)
    (folder / "twice.json").write_text('{"tcb_info": 7}')
    with pytest.raises(RefusedError, match=r"/twice\.json"):
        opened(folder)
