"""AMD's collateral in files: what they say counts at once, and the first end of a list is known."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from keyhouse.attestation import (
    AMD_ROOTS,
    CollateralRefusedError,
    CollateralUnavailableError,
    write_collateral,
)
from keyhouse.attestation.sources.files import AmdFiles, CollateralFiles
from keyhouse.attestation.sources.selection import AmdChecks, no_collateral
from keyhouse.server.services.quote_checks import QuoteChecks
from keyhouse_simulation import SimulatedPlatform, amd_vendor, make_machine
from keyhouse_simulation.amd_certificates import issue_amd_list

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
MACHINE = SimulatedPlatform(make_machine(NOW - 30 * DAY), now=lambda: NOW)
ROOTS = MACHINE.amd_roots


def listed(begins: datetime, ends: datetime, name: str = "ARK-Genoa") -> bytes:
    issuer = (name, amd_vendor.ark_key())
    return issue_amd_list(issuer, (), begins, ends).public_bytes(Encoding.DER)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ask.pem").write_text(amd_vendor.ASK)
    (tmp_path / "list.crl").write_bytes(listed(NOW, NOW + DAY))
    return tmp_path


def test_a_file_counts_at_once_also_where_its_time_and_size_stay(folder: Path) -> None:
    path = folder / "list.crl"
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    files = AmdFiles(folder, ROOTS)
    before = files()
    assert before.lists == (path.read_bytes(),)
    assert files() is before
    other = listed(NOW, NOW + 2 * DAY)
    assert len(other) == len(path.read_bytes())
    path.write_bytes(other)
    os.utime(path, ns=times)
    assert files().lists == (other,)
    assert files().certificates == before.certificates
    path.unlink()
    assert files().lists == ()


def test_files_that_cannot_be_used_are_told_and_serve_again_when_they_are_whole(
    folder: Path,
) -> None:
    files = AmdFiles(folder, ROOTS)
    whole = (folder / "list.crl").read_bytes()
    (folder / "list.crl").write_text("no list")
    checks = AmdChecks(ROOTS, files)
    with pytest.raises(CollateralUnavailableError, match=r"/list\.crl .*PEM"):
        checks.now()
    with pytest.raises(CollateralRefusedError):
        AmdFiles(folder, ROOTS)
    (folder / "list.crl").write_bytes(whole)
    assert checks.now().lists == (whole,)


def test_what_is_no_file_is_named_and_not_kept_open(folder: Path) -> None:
    in_use = sorted(Path("/proc/self/fd").iterdir())
    (folder / "more").mkdir()
    with pytest.raises(CollateralRefusedError, match=r"/more .*: is a directory"):
        AmdFiles(folder, ROOTS)
    (folder / "more").rmdir()
    os.mkfifo(folder / "more")
    with pytest.raises(CollateralRefusedError, match=r"/more .*not a regular"):
        AmdFiles(folder, ROOTS)
    assert sorted(Path("/proc/self/fd").iterdir()) == in_use


def test_it_ends_when_the_first_list_in_use_ends(folder: Path) -> None:
    files = AmdFiles(folder, ROOTS)
    assert files.expires() == NOW + DAY
    # Those that do not count: an older one of the same root, one that another key signed, others'.
    (folder / "older.crl").write_bytes(listed(NOW - DAY, NOW))
    (folder / "foreign.crl").write_bytes(listed(NOW, NOW, "ARK-Milan"))
    (folder / "newer.crl").write_bytes(listed(NOW + DAY, NOW + 9 * DAY))
    assert files.expires() == NOW + DAY
    files()
    assert files.expires() == NOW + 9 * DAY
    assert AmdFiles(folder, {**ROOTS, "Milan": AMD_ROOTS["Milan"]}).expires() == NOW + 9 * DAY
    assert AmdFiles(folder, AMD_ROOTS).expires() is None
    assert AmdFiles(folder / "ask.pem", ROOTS).expires() is None


def test_the_metric_has_the_end_of_all_collateral_that_ends_first(folder: Path) -> None:
    amd = AmdChecks(ROOTS, AmdFiles(folder, ROOTS))
    bundle = folder / "sgx.json"
    bundle.write_bytes(write_collateral(MACHINE.collateral))
    of_intel = CollateralFiles([bundle], MACHINE.root_ca, lambda: NOW)
    ends = {}
    for name, source, beside in (
        ("both", of_intel, amd),
        ("Intel's", of_intel, AmdChecks(ROOTS)),
        ("AMD's", no_collateral, amd),
    ):
        checks = QuoteChecks(MACHINE.root_ca, source, lambda: NOW, amd=beside)
        assert checks.health is not None
        ends[name] = checks.health.expires()
        assert checks.health.fetches() == {}
        checks.close()
    assert ends == {"both": NOW + DAY, "Intel's": NOW + 364 * DAY, "AMD's": NOW + DAY}
    nothing = QuoteChecks(MACHINE.root_ca, no_collateral, lambda: NOW)
    assert nothing.health is None
    nothing.close()
