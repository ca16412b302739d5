"""In a TDX domain, a quote has the given report data, or an error results; nothing is sealed."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.samples.confidential_vms import td_of
from support.samples.hardware import SGX_QUOTE, TDX_QUOTE, Tsm

from keyhouse.attestation import (
    INTEL_SGX_ROOT,
    NoSealingKeyError,
    Platform,
    PlatformUnusableError,
    SealPolicy,
    read_form,
)
from keyhouse.attestation.kinds.table import read_report
from keyhouse.attestation.platforms.files import QuoteNotMadeError
from keyhouse.attestation.platforms.tsm import ReportFolders, TdxPlatform, open_tdx


@pytest.fixture
def tsm(tmp_path: Path) -> Iterator[Tsm]:
    tsm = Tsm(tmp_path / "report")
    yield tsm
    assert not tsm.reports.exists(), "a directory was left behind"


def opened(tsm: Tsm) -> TdxPlatform:
    return open_tdx(tsm.reports, ReportFolders(tsm.make, tsm.remove))


def test_the_domain_is_what_its_quote_says(tsm: Tsm) -> None:
    platform = opened(tsm)
    assert platform.kind == "tdx"
    assert platform.root_ca == INTEL_SGX_ROOT
    quoted = read_report(read_form(platform.quote(b"n" * 64)))
    assert td_of(quoted) == td_of(read_report(read_form(TDX_QUOTE)))


def test_quotes_carry_the_report_data_that_were_asked_for(tsm: Tsm) -> None:
    platform = opened(tsm)
    wanted = [os.urandom(64) for _ in range(20)]
    with ThreadPoolExecutor(4) as pool:
        quotes = list(pool.map(platform.quote, wanted))
    assert [read_report(read_form(quote)).report_data for quote in quotes] == wanted
    assert len(set(tsm.seen)) == len(tsm.seen) == 21


def test_a_quote_that_someone_else_wrote_into_is_asked_for_again(tsm: Tsm) -> None:
    platform = opened(tsm)
    tsm.interruptions = 2
    quote = platform.quote(b"n" * 64)
    assert read_report(read_form(quote)).report_data == b"n" * 64


def test_interruptions_without_end_are_given_up(tsm: Tsm) -> None:
    platform = opened(tsm)
    tsm.interruptions = 100
    with pytest.raises(QuoteNotMadeError, match="another program"):
        platform.quote(b"n" * 64)


@pytest.mark.parametrize("provider", [b"sev_guest\n", b"arm_cca_guest", b"", b"tdx_guest tdx"])
def test_another_provider_is_refused(tsm: Tsm, provider: bytes) -> None:
    tsm.provider = provider
    with pytest.raises(PlatformUnusableError, match="tdx_guest"):
        opened(tsm)


@pytest.mark.parametrize(
    ("quote", "problem"),
    [
        (SGX_QUOTE, "raw TDX quote"),
        (TDX_QUOTE[:-1], "malformed"),
        (TDX_QUOTE + b"\0", "malformed"),
        (TDX_QUOTE[:168] + b"\1" + TDX_QUOTE[169:], "debugging"),
    ],
    ids=["sgx", "cut", "longer", "debug"],
)
def test_what_is_not_a_quote_of_a_domain_is_refused(tsm: Tsm, quote: bytes, problem: str) -> None:
    tsm.quote_template = quote
    with pytest.raises(PlatformUnusableError, match=problem):
        opened(tsm)


def test_a_kernel_without_it_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlatformUnusableError, match=f"{tmp_path / 'no'} .*no such file"):
        open_tdx(tmp_path / "no")


def test_a_directory_that_the_kernel_does_not_fill_is_named_and_removed(tmp_path: Path) -> None:
    with pytest.raises(PlatformUnusableError, match=r"/provider .*no such file"):
        open_tdx(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("policy", SealPolicy)
def test_nothing_can_be_sealed_and_no_measurement_is_made_up(tsm: Tsm, policy: SealPolicy) -> None:
    platform: Platform = opened(tsm)
    with pytest.raises(NoSealingKeyError, match="tdx"):
        platform.sealing_key(policy)
    with pytest.raises(PlatformUnusableError, match="measurements of an enclave"):
        _ = platform.measurements


@pytest.mark.parametrize("length", [0, 32, 65])
def test_report_data_of_another_length_are_a_bug(tsm: Tsm, length: int) -> None:
    platform = opened(tsm)
    with pytest.raises(ValueError, match=r"\b64\b"):
        platform.quote(bytes(length))
