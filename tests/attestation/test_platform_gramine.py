"""Under Gramine, a quote has this enclave and the given report data, or an error results."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.samples.hardware import SGX_QUOTE, Gramine, sgx_quote_with, sgx_quote_with_versions

from keyhouse.attestation import (
    INTEL_SGX_ROOT,
    Measurements,
    Platform,
    PlatformUnusableError,
    QuoteRefusedError,
    SealPolicy,
    Verifier,
    open_platform,
    read_collateral,
    read_form,
)
from keyhouse.attestation.kinds.table import read_report
from keyhouse.attestation.platforms.files import QuoteNotMadeError
from keyhouse.attestation.platforms.gramine import GraminePlatform, open_gramine
from keyhouse.base.secret import Secret
from keyhouse.journal import DirectoryStorage, Fresh
from keyhouse.journal.directory.load_result import WrongPlatformError
from keyhouse_simulation import SimulatedPlatform, make_machine
from keyhouse_simulation.platform import utc_now
from keyhouse_simulation.tsm import answering

ATTRIBUTES = 48
MRENCLAVE = 64
MRSIGNER = 128
VARIABLES = (
    "OE_SIMULATION",
    "SGX_MODE",
    "KEYHOUSE_PLATFORM",
    "KEYHOUSE_SIMULATION",
    "EDG_COORDINATOR_DEV_MODE",
    "SGX_AESM_ADDR",
    "RA_TLS_ALLOW_DEBUG_ENCLAVE_INSECURE",
)


@pytest.fixture
def gramine(tmp_path: Path) -> Gramine:
    return Gramine(tmp_path / "attestation")


def refused(gramine: Gramine, **answers: Callable[[], bytes]) -> str:
    with gramine.running(**answers) as files, pytest.raises(PlatformUnusableError) as caught:
        open_gramine(files)
    return caught.value.message


def simulated_quote(data: bytes) -> bytes:
    return SimulatedPlatform(make_machine(utc_now())).quote(data)


def test_the_platform_is_what_the_processor_says(gramine: Gramine) -> None:
    gramine.template = gramine.quote_template = sgx_quote_with_versions(7, 3)
    with gramine.running() as files:
        platform: Platform = open_gramine(files)
    report = read_report(read_form(SGX_QUOTE))
    assert platform.kind == "gramine"
    assert platform.root_ca == INTEL_SGX_ROOT
    assert platform.measurements == Measurements(report.mrenclave, report.mrsigner, 7, 3)


def test_quotes_carry_the_report_data_that_were_asked_for(gramine: Gramine) -> None:
    with gramine.running() as files:
        platform = open_gramine(files)
        for data in (bytes(64), os.urandom(64), b"\xff" * 64):
            assert read_report(read_form(platform.quote(data))).report_data == data


def test_concurrent_quotes_carry_each_its_own_report_data(gramine: Gramine) -> None:
    wanted = [os.urandom(64) for _ in range(40)]
    with gramine.running() as files, ThreadPoolExecutor(8) as pool:
        platform = open_gramine(files)
        quotes = list(pool.map(platform.quote, wanted))
    assert [read_report(read_form(quote)).report_data for quote in quotes] == wanted


@pytest.mark.parametrize("length", [0, 32, 63, 65])
def test_report_data_of_another_length_are_a_bug(gramine: Gramine, length: int) -> None:
    with gramine.running() as files:
        platform = open_gramine(files)
        with pytest.raises(ValueError, match=r"\b64\b"):
            platform.quote(bytes(length))


@pytest.mark.parametrize(
    ("said", "word"),
    [
        (b"none", "says none"),
        (b"epid", "says epid"),
        (b"", "something unknown"),
        (b"DCAP", "something unknown"),
        (b"dcap\n\n", "something unknown"),
        (b"dcap and more of it", "more than 16 bytes"),
    ],
)
def test_only_dcap_will_do(gramine: Gramine, said: bytes, word: str) -> None:
    gramine.put("attestation_type", said)
    assert word in refused(gramine)


def test_a_line_end_after_dcap_does_not_count(gramine: Gramine) -> None:
    gramine.put("attestation_type", b"dcap\n")
    with gramine.running() as files:
        assert open_gramine(files).kind == "gramine"


@pytest.mark.parametrize(
    "name", ["attestation_type", "my_target_info", "target_info", "user_report_data"]
)
def test_a_missing_file_is_named(gramine: Gramine, name: str) -> None:
    (gramine.files / name).unlink()
    message = refused(gramine)
    assert f"{gramine.files / name} cannot be" in message
    assert "no such file" in message


@pytest.mark.parametrize("name", ["attestation_type", "my_target_info", "user_report_data"])
def test_a_symbolic_link_in_place_of_a_file_is_refused(gramine: Gramine, name: str) -> None:
    path = gramine.files / name
    path.rename(gramine.files / "elsewhere")
    path.symlink_to("elsewhere")
    assert f"{path} cannot be" in refused(gramine)


@pytest.mark.parametrize("length", [0, 511, 513])
def test_a_target_info_of_another_length_is_refused(gramine: Gramine, length: int) -> None:
    gramine.put("my_target_info", b"T" * length)
    text = refused(gramine)
    assert "my_target_info gives" in text or "my_target_info has more than 512" in text


@pytest.mark.parametrize("length", [0, 384, 431, 433])
def test_a_report_of_another_length_is_refused(gramine: Gramine, length: int) -> None:
    text = refused(gramine, report=lambda: bytes(length))
    assert "report gives" in text or "report has more than 432" in text


def test_a_report_over_other_data_is_refused(gramine: Gramine) -> None:
    other = SGX_QUOTE[48:432] + bytes(48)
    assert "other report data" in refused(gramine, report=lambda: other)


def test_a_debug_enclave_is_refused(gramine: Gramine) -> None:
    gramine.template = sgx_quote_with(at=ATTRIBUTES, value=b"\x07")
    assert "sgx.debug = true" in refused(gramine)
    gramine.template, gramine.quote_template = SGX_QUOTE, gramine.template
    assert "debugging" in refused(gramine)


@pytest.mark.parametrize(
    ("quote", "problem"),
    [
        (SGX_QUOTE[:-1], "malformed"),
        (SGX_QUOTE + b"\0", "malformed"),
        (b"quote", "malformed"),
        (bytes(70_000), "more than 65536 bytes"),
        (SGX_QUOTE, "other report data"),
        (SGX_QUOTE.replace(b"MIICjzCCAjSg", b"MIICjzCCAjSh"), "certificate"),
    ],
    ids=["cut", "longer", "nonsense", "endless", "replayed", "other root"],
)
def test_what_is_not_a_quote_of_the_moment_is_refused(
    gramine: Gramine, quote: bytes, problem: str
) -> None:
    assert problem in refused(gramine, quote=lambda: quote)


@pytest.mark.parametrize(
    "other",
    [
        sgx_quote_with(at=MRENCLAVE, value=bytes(32)),
        sgx_quote_with(at=MRSIGNER, value=bytes(32)),
        sgx_quote_with_versions(1, 0),
        sgx_quote_with_versions(0, 1),
    ],
    ids=["MRENCLAVE", "MRSIGNER", "ISVPRODID", "ISVSVN"],
)
def test_a_quote_of_another_enclave_is_refused(gramine: Gramine, other: bytes) -> None:
    gramine.quote_template = other
    assert "does not describe this enclave" in refused(gramine)


def test_one_wrong_bit_of_report_data_is_noticed_later_too(gramine: Gramine) -> None:
    with gramine.running() as files:
        platform = open_gramine(files)
        gramine.lies = lambda asked: asked[:-1] + bytes([asked[-1] ^ 1])
        with pytest.raises(PlatformUnusableError, match="other report data"):
            platform.quote(b"n" * 64)
        gramine.lies = None
        assert platform.quote(b"n" * 64)


@pytest.mark.parametrize("variable", ["", *VARIABLES])
def test_missing_empty_and_simulated_quotes_are_denied_under_every_variable(
    gramine: Gramine, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    if variable:
        monkeypatch.setenv(variable, "1")
    with (
        gramine.running(quote=lambda: b"") as files,
        pytest.raises(QuoteNotMadeError, match="is empty"),
    ):
        open_gramine(files)
    assert "the vendor's root" in refused(gramine, quote=lambda: simulated_quote(bytes(64)))
    with (
        answering(gramine.files / "report", gramine.report),
        pytest.raises(PlatformUnusableError, match=r"/quote .*no such file"),
    ):
        open_gramine(gramine.files)


def test_the_verifier_of_the_hardware_refuses_simulated_quotes(tmp_path: Path) -> None:
    open_platform("simulation", tmp_path)
    collateral = read_collateral((tmp_path / "simulation" / "collateral.json").read_bytes())
    quote = open_platform("simulation", tmp_path).quote(bytes(64))
    with pytest.raises(QuoteRefusedError):
        Verifier(INTEL_SGX_ROOT).verify(quote, collateral, utc_now())


# --- sealing keys ---


def opened(gramine: Gramine) -> GraminePlatform:
    with gramine.running() as files:
        return open_gramine(files)


def test_each_policy_has_a_sealing_key_of_its_own_and_keeps_it(gramine: Gramine) -> None:
    platform = opened(gramine)
    product = platform.sealing_key(SealPolicy.PRODUCT_KEY)
    unique = platform.sealing_key(SealPolicy.UNIQUE_KEY)
    assert len(product) == len(unique) == 32
    assert product != unique
    assert product == platform.sealing_key(SealPolicy.PRODUCT_KEY)
    # The derivation is permanent: a change would lose every state under Gramine.
    assert product.reveal().hex() == (
        "dc30a7414f75fc93f585b9fa177e455a99c757abc0e15ec387fe3e4267dba09c"
    )
    gramine.put("keys/_sgx_mrenclave", bytes(range(16)))
    assert platform.sealing_key(SealPolicy.UNIQUE_KEY) not in (unique, product)


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (b"", " 0 bytes"),
        (b"k" * 15, " 15 bytes"),
        (b"k" * 17, "more than 16 bytes"),
        (bytes(16), "zeros"),
    ],
)
def test_an_invalid_key_is_refused(gramine: Gramine, key: bytes, problem: str) -> None:
    platform = opened(gramine)
    gramine.put("keys/_sgx_mrsigner", key)
    with pytest.raises(PlatformUnusableError, match=problem):
        platform.sealing_key(SealPolicy.PRODUCT_KEY)


def test_a_missing_key_is_named(gramine: Gramine) -> None:
    platform = opened(gramine)
    (gramine.files / "keys" / "_sgx_mrenclave").unlink()
    with pytest.raises(PlatformUnusableError, match=r"keys/_sgx_mrenclave .*no such file"):
        platform.sealing_key(SealPolicy.UNIQUE_KEY)


# --- the journal of another platform ---


async def found_on(platform: Platform, path: Path, *, establish: bool = False) -> object:
    storage = await DirectoryStorage.open(
        path,
        platform_kind=platform.kind,
        sealing_key=platform.sealing_key,
    )
    try:
        found = await storage.load()
        if establish:
            assert found == Fresh()
            await storage.establish(
                store_id=bytes(16),
                dek=Secret(b"d" * 32),
                base=[b"base"],
                policy="ProductKey",
                recovery_index=b"index",
            )
            await storage.write_head()
        return found
    finally:
        await storage.close()


async def test_a_simulated_journal_under_hardware_and_the_reverse_are_refused(
    gramine: Gramine, tmp_path: Path
) -> None:
    hardware = opened(gramine)
    simulation = open_platform("simulation", tmp_path)
    pairs = (("a", hardware, simulation), ("b", simulation, hardware))
    for name, owner, other in pairs:
        await found_on(owner, tmp_path / name, establish=True)
        with pytest.raises(WrongPlatformError, match=f"{owner.kind}, .*{other.kind}"):
            await found_on(other, tmp_path / name)
        assert type(await found_on(owner, tmp_path / name)).__name__ == "Opened"
