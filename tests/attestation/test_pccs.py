"""Collateral over real HTTPS from a PCCS with and without faults."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import asdict
from support.peers.https import make_pair
from support.samples.collateral import RECORDED_AT, Site, platform_of, recorded
from support.watcher import Noted

from keyhouse.attestation import (
    INTEL_SGX_ROOT,
    CollateralFacts,
    CollateralRefusedError,
    CollateralUnavailableError,
    ConfigurationRefusedError,
    Mark,
    PckCa,
    PlatformKind,
    QuoteRefusedError,
    Tee,
    Verifier,
    marks_of,
    read_facts,
    report_data,
    write_collateral,
)
from keyhouse.attestation.collateral.cache import MOST_KEPT, CollateralCache, Kept, with_newer_lists
from keyhouse.attestation.collateral.facts import require_sound
from keyhouse.attestation.collateral.pccs import PATIENCE, Pccs
from keyhouse.attestation.sources.pccs_source import (
    AT_ONCE,
    FAILED_WITHIN,
    MOST_FAILED,
    MOST_RUNNING,
    NEAR_END_AGAIN,
    SEEN_WITHIN,
    PccsSource,
)
from keyhouse.cli.output.progress_bar import watched_by
from keyhouse_simulation import (
    Lists,
    Machine,
    Pck,
    QeIdentity,
    QuoteParameters,
    SimulatedPlatform,
    TcbInfo,
    make_machine,
)
from keyhouse_simulation.certificates import issue_leaf, pck_extension
from keyhouse_simulation.pccs import PccsFault, PccsServer, ServedCollateral

REQUESTS = 4  # for one fetch
NEXT_EVALUATION = QuoteParameters(
    tcb_info=TcbInfo(evaluation_number=2), qe_identity=QeIdentity(evaluation_number=2)
)


@pytest.fixture
def site() -> Site:
    return Site()


@asynccontextmanager
async def source(
    site: Site, folder: Path | None = None, *, patience: float = 10.0, grace: float = 5.0
) -> AsyncIterator[PccsSource]:
    """Open a source on the site's PCCS, which need not run."""
    pccs = Pccs(site.pccs.url, site.pccs.ca_pem, patience=patience)
    async with PccsSource(
        pccs, site.root_ca, folder, now=site.clock, warn=site.warned.append, grace=grace
    ) as opened:
        yield opened


async def finished(opened: PccsSource) -> None:
    """Wait for all fetches in the background."""
    await asyncio.gather(*opened._running.values())


async def test_quotes_of_real_machines_verify_with_what_is_fetched_for_them() -> None:
    quotes = [recorded("sgx_quote"), recorded("tdx_quote")]
    served = [ServedCollateral(collateral) for _, collateral in quotes]
    with PccsServer(served) as server:
        pccs = Pccs(server.url, server.ca_pem)
        async with PccsSource(pccs, INTEL_SGX_ROOT, now=lambda: RECORDED_AT) as opened:
            for quote, collateral in quotes:
                found = await opened.collateral_for(quote)
                assert found == collateral
                Verifier(INTEL_SGX_ROOT).verify(quote, found, RECORDED_AT)
            ends = [read_facts(collateral).expires for _, collateral in quotes]
            assert opened.expires() == min(ends)


async def test_nothing_is_fetched_for_a_quote_that_does_not_lead_to_the_pinned_root(
    site: Site,
) -> None:
    stranger = Site()
    with site.pccs:
        async with source(site) as opened:
            for quote in (stranger.quote, site.quote[:-1], b"", recorded("sgx_quote")[0]):
                with pytest.raises(QuoteRefusedError):
                    await opened.collateral_for(quote)
    assert site.pccs.asked == []


async def test_many_who_wait_share_one_fetch(site: Site) -> None:
    with site.pccs:
        async with source(site) as opened:
            found = await asyncio.gather(*(opened.collateral_for(site.quote) for _ in range(50)))
            assert found == [site.collateral] * 50
            assert await opened.collateral_for(site.quote) == site.collateral
    assert len(site.pccs.asked) == REQUESTS


async def test_one_who_gives_up_does_not_end_it_for_the_others(site: Site) -> None:
    with site.pccs:
        async with source(site) as opened:
            first = asyncio.create_task(opened.collateral_for(site.quote))
            second = asyncio.create_task(opened.collateral_for(site.quote))
            await asyncio.sleep(0)  # now both tasks wait for the fetch
            assert opened._running
            first.cancel()
            assert await second == site.collateral
            assert first.cancelled()


async def test_what_was_fetched_survives_a_restart_and_a_dead_pccs(
    site: Site, tmp_path: Path
) -> None:
    with site.pccs:
        async with source(site, tmp_path / "cache") as opened:
            await opened.collateral_for(site.quote)
    site.now += timedelta(days=200)
    async with source(site, tmp_path / "cache") as opened:
        assert await opened.collateral_for(site.quote) == site.collateral
    end = read_facts(site.collateral).expires.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert site.warned == [
        f"the PCCS cannot be reached; the collateral of {site.kind} is kept and expires at {end}"
    ]


async def test_it_serves_until_it_expires_and_then_says_so(site: Site, tmp_path: Path) -> None:
    with site.pccs:
        async with source(site, tmp_path) as opened:
            await opened.collateral_for(site.quote)
    async with source(site, tmp_path) as opened:
        site.now = read_facts(site.collateral).expires
        assert await opened.collateral_for(site.quote) == site.collateral
        await finished(opened)
        site.now += FAILED_WITHIN
        with pytest.raises(CollateralUnavailableError, match=f"{site.kind}.*cannot be reached"):
            await opened.collateral_for(site.quote)


async def test_new_collateral_is_fetched_a_day_later_while_the_old_one_serves(site: Site) -> None:
    with site.pccs:
        async with source(site) as opened:
            old = await opened.collateral_for(site.quote)
            site.now += SEEN_WITHIN - timedelta(seconds=1)
            assert await opened.collateral_for(site.quote) == old
            assert len(site.pccs.asked) == REQUESTS
            site.now += timedelta(seconds=1)
            new = site.publish(site.now)
            assert await opened.collateral_for(site.quote) == old
            await finished(opened)
            assert await opened.collateral_for(site.quote) == new != old
    assert len(site.pccs.asked) == 2 * REQUESTS
    assert site.warned == []


async def test_near_its_end_it_is_fetched_again_more_often(site: Site) -> None:
    end = read_facts(site.collateral).expires
    with site.pccs:
        async with source(site) as opened:
            site.now = end - timedelta(days=6)
            await opened.collateral_for(site.quote)
            for periods, times in ((0.9, 1), (1.0, 2), (1.5, 2), (2.0, 3)):
                site.now = end - timedelta(days=6) + periods * NEAR_END_AGAIN
                await opened.collateral_for(site.quote)
                await finished(opened)
                assert len(site.pccs.asked) == times * REQUESTS


async def test_a_failure_is_not_repeated_at_once(site: Site) -> None:
    site.pccs.faults = {PccsFault.NOT_FOUND: 1.0}
    with site.pccs:
        async with source(site) as opened:
            for _ in range(5):
                with pytest.raises(CollateralUnavailableError, match="certification/v4/tcb"):
                    await opened.collateral_for(site.quote)
            asked = len(site.pccs.asked)
            assert asked <= REQUESTS
            site.pccs.faults = {}
            site.now += FAILED_WITHIN - timedelta(seconds=1)
            with pytest.raises(CollateralUnavailableError):
                await opened.collateral_for(site.quote)
            assert len(site.pccs.asked) == asked
            site.now += timedelta(seconds=1)
            assert await opened.collateral_for(site.quote) == site.collateral


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (PccsFault.SLOW, "in time"),
        (PccsFault.NOT_FOUND, "sgx/certification/v4/"),
        (PccsFault.GARBAGE, "unreadable|no issuer chain"),
        (PccsFault.WRONG_CA, "pinned root"),
        (PccsFault.STALE, "expired .*2026-02-"),
    ],
)
async def test_each_fault_is_told_and_what_is_kept_serves_on(
    site: Site, tmp_path: Path, fault: PccsFault, words: str
) -> None:
    brief = QuoteParameters(tcb_info=TcbInfo(valid_for=timedelta(days=20)))
    long_ago = platform_of(site.machine, brief, site.now - timedelta(days=25)).collateral
    foreign = Site().collateral
    site.pccs.served = [ServedCollateral(site.collateral, stale=long_ago, foreign=foreign)]
    site.pccs.faults = {fault: 1.0}
    patience = 0.3 if fault is PccsFault.SLOW else 10.0
    with site.pccs:
        async with source(site, patience=patience) as empty:
            with pytest.raises(CollateralUnavailableError, match=words):
                await empty.collateral_for(site.quote)
        site.pccs.faults = {}
        async with source(site, tmp_path) as opened:
            await opened.collateral_for(site.quote)
        site.pccs.faults = {fault: 1.0}
        site.now += SEEN_WITHIN
        async with source(site, tmp_path, patience=patience) as opened:
            assert await opened.collateral_for(site.quote) == site.collateral
            await finished(opened)
    assert len(site.warned) == 1
    assert "is kept and expires at" in site.warned[0]


@pytest.mark.parametrize("seed", range(4))
async def test_with_faults_by_chance_only_true_collateral_is_ever_given(seed: int) -> None:
    site = Site()
    older = platform_of(site.machine, None, site.now - timedelta(days=20)).collateral
    site.pccs = PccsServer(
        [ServedCollateral(site.collateral, stale=older, foreign=Site().collateral)],
        faults={
            PccsFault.NOT_FOUND: 0.1,
            PccsFault.GARBAGE: 0.1,
            PccsFault.STALE: 0.1,
            PccsFault.WRONG_CA: 0.1,
        },
        seed=seed,
    )
    verifier = Verifier(site.root_ca)
    given = 0
    with site.pccs:
        async with source(site) as opened:
            for _ in range(12):
                site.now += FAILED_WITHIN
                try:
                    found = await opened.collateral_for(site.quote)
                except CollateralUnavailableError:
                    continue
                verifier.verify(site.quote, found, site.now)
                given += 1
    assert given


@pytest.mark.parametrize(
    "parameters",
    [QuoteParameters(lists=Lists(number=3)), QuoteParameters()],
    ids=["revocation list", "issue date"],
)
async def test_a_pccs_cannot_go_back(site: Site, parameters: QuoteParameters) -> None:
    site.now += timedelta(days=10)
    new = site.publish(site.now, parameters)
    with site.pccs:
        async with source(site) as opened:
            await opened.collateral_for(site.quote)
            site.publish(site.now - timedelta(days=5))
            site.now += SEEN_WITHIN
            await opened.collateral_for(site.quote)
            await finished(opened)
            assert await opened.collateral_for(site.quote) == new
    assert any("older collateral" in text for text in site.warned)


async def test_collateral_of_another_platform_than_was_asked_for_is_refused(site: Site) -> None:
    other = QuoteParameters(tcb_info=TcbInfo(fmspc=b"\x51\x11\x51\x11\x51\x12"))
    machine = msgspec.structs.replace(site.kind, fmspc="511151115112")
    wrong = platform_of(site.machine, other).collateral
    site.pccs.served = [ServedCollateral(site.collateral, stale=wrong)]
    site.pccs.faults = {PccsFault.STALE: 1.0}
    with site.pccs:
        async with source(site) as opened:
            with pytest.raises(CollateralUnavailableError, match=machine.fmspc):
                await opened.collateral_for(site.quote)


async def test_a_pccs_with_another_ca_or_name_is_not_asked(site: Site) -> None:
    ours = make_pair("a ca").pem
    with site.pccs:
        for url, ca in ((site.pccs.url, ours), (site.pccs.url, b"")):
            async with Pccs(url, ca) as pccs:
                with pytest.raises(CollateralUnavailableError, match="--pccs-ca") as caught:
                    await pccs.fetch(site.kind)
            assert "--pccs-ca" in caught.value.hint
    assert site.pccs.asked == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://127.0.0.1:1",
        "127.0.0.1:8081",
        "https://",
        "https://user:CANARY@pccs",
        "https://pccs/?fmspc=CANARY",
        "https://pccs/#CANARY",
        "https://pccs:CANARY",
        "https://pccs:99999999",
        "https://xn--a",
        "https://[bad",
        "https://a b",
        "https://" + "a" * 3000,
    ],
)
def test_an_invalid_address_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigurationRefusedError, match="address of the PCCS") as caught:
        Pccs(url)
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize("ca", [b"junk", b"\xff", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_an_invalid_ca_is_refused(ca: bytes) -> None:
    with pytest.raises(ConfigurationRefusedError, match="CA of the PCCS"):
        Pccs("https://pccs", ca)


async def test_an_endless_answer_is_cut_off(site: Site) -> None:
    long = msgspec.structs.replace(site.collateral, tcb_info=f'{{"x":"{"a" * (1 << 20)}"}}')
    server = PccsServer(
        [ServedCollateral(site.collateral, stale=long)], faults={PccsFault.STALE: 1.0}
    )
    with server:
        async with Pccs(server.url, server.ca_pem) as pccs:
            with pytest.raises(CollateralRefusedError, match=r"\d{7} bytes"):
                await pccs.fetch(site.kind)


def _cut(path: Path, _: Site) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _junk(path: Path, _: Site) -> None:
    path.write_bytes(b"\xff" * 100)


def _foreign(path: Path, _: Site) -> None:
    path.write_bytes(write_collateral(Site().collateral))


def _expired(path: Path, site: Site) -> None:
    old = platform_of(site.machine, None, site.now - timedelta(days=400)).collateral
    path.write_bytes(write_collateral(old))


def _link(path: Path, _: Site) -> None:
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


def _folder(path: Path, _: Site) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("harm", [_cut, _junk, _foreign, _expired, _link, _folder])
async def test_a_cache_that_was_changed_is_not_believed(
    site: Site, tmp_path: Path, harm: Callable[[Path, Site], None]
) -> None:
    with site.pccs:
        async with source(site, tmp_path) as opened:
            await opened.collateral_for(site.quote)
        harm(tmp_path / f"{site.kind}.json", site)
        async with source(site, tmp_path) as opened:
            assert await opened.collateral_for(site.quote) == site.collateral
    assert len(site.pccs.asked) == 2 * REQUESTS


def test_a_directory_in_the_place_of_a_file_is_not_kept_open(site: Site, tmp_path: Path) -> None:
    handles = Path("/proc/self/fd")
    (tmp_path / f"{site.kind}.json").mkdir()
    in_use = sorted(handles.iterdir())
    assert CollateralCache(tmp_path, site.root_ca).read(site.kind, site.now) is None
    assert sorted(handles.iterdir()) == in_use


async def test_a_cache_that_cannot_be_written_is_told_and_does_no_harm(
    site: Site, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("no folder")
    with site.pccs:
        async with source(site, tmp_path / "cache") as opened:
            assert await opened.collateral_for(site.quote) == site.collateral
    assert len(site.warned) == 1
    assert "cannot be written" in site.warned[0]


def test_a_time_is_kept_where_files_have_none(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under Gramine, the time of a file is 1970 and cannot be changed."""

    def refused(*_: object, **_more: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    cache = CollateralCache(tmp_path, site.root_ca)
    facts = require_sound(site.collateral, site.root_ca, site.now)
    with monkeypatch.context() as patched:
        patched.setattr(os, "utime", refused)
        cache.write(Kept(site.collateral, facts, site.now))
    (file,) = tmp_path.glob("*.json")
    os.utime(file, (0, 0))
    found = cache.read(facts.kind, site.now)
    assert found == Kept(site.collateral, facts, site.now)


def test_a_file_of_an_earlier_version_has_the_time_it_was_written(
    site: Site, tmp_path: Path
) -> None:
    facts = require_sound(site.collateral, site.root_ca, site.now)
    file = tmp_path / f"{facts.kind}.json"
    file.write_bytes(write_collateral(site.collateral))
    os.utime(file, (site.now.timestamp(), site.now.timestamp()))
    found = CollateralCache(tmp_path, site.root_ca).read(facts.kind, site.now)
    assert found == Kept(site.collateral, facts, site.now)


def test_the_cache_is_bounded_and_the_one_seen_longest_ago_goes(site: Site, tmp_path: Path) -> None:
    cache = CollateralCache(tmp_path, site.root_ca)
    facts = read_facts(site.collateral)
    kinds = [PlatformKind(Tee.SGX, f"{n:012x}", PckCa.PLATFORM) for n in range(MOST_KEPT + 3)]
    for days, kind in enumerate(kinds):
        named = msgspec.structs.replace(facts, kind=kind)
        cache.write(Kept(site.collateral, named, site.now - timedelta(days=days)))
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"{kind}.json" for kind in kinds[:MOST_KEPT]}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


async def test_machines_of_one_kind_share_what_is_fetched(site: Site) -> None:
    other = make_machine(site.now - timedelta(days=30), Pck(ppid=b"ANOTHER MACHINE!"))
    # Same vendor: only the PCK certificate identifies the machine.
    same = type(other)(**{**asdict(site.machine), "attestation_key": other.attestation_key})
    quote = SimulatedPlatform(same, collateral=site.collateral).quote(report_data(bytes(32)))
    with site.pccs:
        async with source(site) as opened:
            assert await opened.collateral_for(quote) == await opened.collateral_for(site.quote)
    assert len(site.pccs.asked) == REQUESTS


async def test_a_fetch_that_nobody_waits_for_does_not_hold_up_the_end(
    site: Site, tmp_path: Path
) -> None:
    with site.pccs:
        async with source(site, tmp_path) as opened:
            await opened.collateral_for(site.quote)
        site.now += SEEN_WITHIN
        site.pccs.faults = {PccsFault.SLOW: 1.0}
        async with source(site, tmp_path, patience=60.0, grace=0.05) as opened:
            assert await opened.collateral_for(site.quote) == site.collateral
    (said,) = site.warned
    assert said.startswith("the PCCS does not answer in time; ")
    assert "is kept and expires at" in said


def _quote_of(site: Site, fmspc: bytes) -> bytes:
    """Return a quote of a different kind of platform with the site's vendor."""
    whole = site.machine
    issuer = ("Keyhouse Simulation PCK Platform CA", whole.pck_ca_key)
    start = site.now - timedelta(days=30)
    pck = issue_leaf("PCK", whole.pck_key, issuer, start, pck_extension(Pck(fmspc=fmspc)))
    machine = Machine(**{**asdict(whole), "pck": pck})
    return SimulatedPlatform(machine, collateral=site.collateral).quote(report_data(bytes(32)))


def _quotes_of_kinds(site: Site, count: int) -> list[bytes]:
    """Return quotes of ``count`` kinds of platforms, all with the site's vendor."""
    return [_quote_of(site, number.to_bytes(6, "big")) for number in range(count)]


async def test_kinds_of_platforms_that_wait_are_bounded(site: Site) -> None:
    quotes = _quotes_of_kinds(site, MOST_RUNNING + 1)
    site.pccs.faults = {PccsFault.SLOW: 1.0}
    with site.pccs:
        async with source(site, patience=60.0, grace=0.05) as opened:
            waiting = [asyncio.create_task(opened.collateral_for(one)) for one in quotes[:-1]]
            await asyncio.sleep(0)
            with pytest.raises(CollateralUnavailableError, match="too many"):
                await opened.collateral_for(quotes[-1])
            assert len(opened._running) == MOST_RUNNING
        ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(outcome) for outcome in ended} == {CollateralUnavailableError}
    assert len(site.pccs.asked) <= AT_ONCE * REQUESTS


async def test_a_handshake_that_is_cut_off_closes_its_connection_at_once(site: Site) -> None:
    hello, ended = asyncio.Event(), asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read(1 << 16)
        hello.set()
        assert await reader.read() == b""
        ended.set()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    async with server, Pccs(f"https://127.0.0.1:{port}") as pccs:
        fetch = asyncio.create_task(pccs.fetch(site.kind))
        await hello.wait()
        fetch.cancel()
        await asyncio.wait([fetch])
        await asyncio.wait_for(ended.wait(), PATIENCE)  # although the Pccs is still in use


async def test_a_fetch_tells_how_many_answers_are_in(site: Site) -> None:
    noted = Noted()
    with site.pccs, watched_by(noted):
        async with Pccs(site.pccs.url, site.pccs.ca_pem) as pccs:
            await pccs.fetch(site.kind)
    assert (noted.names, noted.done) == (["answers"], [4])


async def test_failures_that_are_remembered_are_bounded(site: Site) -> None:
    quotes = _quotes_of_kinds(site, MOST_FAILED + 1)
    with site.pccs:
        """Nothing listens on the port of the PCCS afterwards."""
    async with source(site) as opened:
        for quote in quotes:
            with pytest.raises(CollateralUnavailableError, match="cannot be reached"):
                await opened.collateral_for(quote)
        assert len(opened._failed) == MOST_FAILED


async def test_what_another_kind_has_made_old_is_fetched_again_and_never_served(
    site: Site,
) -> None:
    """The kinds share an evaluation number, so a newer number of one kind outdates all kinds."""
    known: dict[str, Mark] = {}
    told: list[CollateralFacts] = []
    with site.pccs:
        pccs = Pccs(site.pccs.url, site.pccs.ca_pem)
        async with PccsSource(
            pccs, site.root_ca, now=site.clock, known=lambda: known, on_facts=told.append
        ) as opened:
            old = await opened.collateral_of(site.kind)
            seen = marks_of(told[0])["qe-identity/sgx"]
            known["qe-identity/sgx"] = Mark(seen.number + 1, seen.issued)
            with pytest.raises(CollateralUnavailableError, match="qe-identity/sgx"):
                await opened.collateral_of(site.kind)
            site.now += FAILED_WITHIN
            newer = site.publish(site.now, NEXT_EVALUATION)
            opened.refresh_due()
            await finished(opened)
            assert await opened.collateral_of(site.kind) == newer != old
            assert opened.fetches() == {"fetched": 2, "failed": 1}


async def test_newer_lists_of_one_kind_serve_the_others_though_the_pccs_has_gone(
    site: Site, tmp_path: Path
) -> None:
    """A newer list of one kind must not stop a different kind, whose documents are still good."""
    sibling = msgspec.structs.replace(site.kind, fmspc="511151115112")
    other = QuoteParameters(tcb_info=TcbInfo(fmspc=bytes.fromhex(sibling.fmspc)))
    site.pccs.served.append(ServedCollateral(platform_of(site.machine, other).collateral))
    known: dict[str, Mark] = {}

    def open_source() -> PccsSource:
        pccs = Pccs(site.pccs.url, site.pccs.ca_pem)
        return PccsSource(pccs, site.root_ca, tmp_path, now=site.clock, known=lambda: known)

    with site.pccs:
        async with open_source() as opened:
            before = await opened.collateral_of(sibling)
            await opened.collateral_of(site.kind)
            site.now += SEEN_WITHIN
            newer = site.publish(site.now, QuoteParameters(lists=Lists(number=2)))
            opened.refresh_due()  # the PCCS no longer serves the second kind
            await finished(opened)
            assert opened.fetches() == {"fetched": 3, "failed": 1}
            known |= marks_of(read_facts(newer))
            shared = await opened.collateral_of(sibling)
    assert (shared.root_ca_crl, shared.pck_crl) == (newer.root_ca_crl, newer.pck_crl)
    assert (shared.tcb_info, shared.qe_identity) == (before.tcb_info, before.qe_identity)
    quote = _quote_of(site, bytes.fromhex(sibling.fmspc))
    Verifier(site.root_ca).verify(quote, shared, site.now)
    async with open_source() as after_a_restart:
        assert await after_a_restart.collateral_for(quote) == shared


@pytest.mark.parametrize(
    "parameters",
    [
        QuoteParameters(lists=Lists(number=0)),
        QuoteParameters(lists=Lists(issued_ago=timedelta(days=9))),
    ],
    ids=["number", "date"],
)
async def test_older_lists_of_one_kind_are_not_given_to_others(
    site: Site, parameters: QuoteParameters
) -> None:
    sibling = msgspec.structs.replace(site.kind, fmspc="511151115112")
    other = msgspec.structs.replace(parameters, tcb_info=TcbInfo(fmspc=b"\x51\x11\x51\x11\x51\x12"))
    site.pccs.served.append(ServedCollateral(platform_of(site.machine, other).collateral))
    with site.pccs:
        async with source(site) as opened:
            assert await opened.collateral_of(site.kind) == site.collateral
            await opened.collateral_of(sibling)
            assert await opened.collateral_of(site.kind) == site.collateral


def test_lists_under_which_a_signer_is_revoked_make_nothing_else_usable(site: Site) -> None:
    kept, newest = (
        Kept(collateral, read_facts(collateral), site.now)
        for collateral in (
            site.collateral,
            platform_of(
                site.machine, QuoteParameters(lists=Lists(number=2, revokes_tcb_signer=True))
            ).collateral,
        )
    )
    assert with_newer_lists(kept, newest, site.root_ca, site.now) is None


async def test_what_is_in_the_folder_is_looked_after_without_anybody_asking(
    site: Site, tmp_path: Path
) -> None:
    with site.pccs:
        async with source(site, tmp_path) as opened:
            await opened.collateral_of(site.kind)
        site.now += SEEN_WITHIN
        newer = site.publish(site.now)
        async with looked_after(site, tmp_path, site.clock) as opened:
            assert opened.expires() == read_facts(newer).expires


@asynccontextmanager
async def looked_after(
    site: Site, folder: Path, now: Callable[[], datetime]
) -> AsyncIterator[PccsSource]:
    """Open a source that has fetched once, and then refreshes without a pause.

    The task of the refreshes runs when the context begins.
    """
    fetched = asyncio.Event()
    pccs = Pccs(site.pccs.url, site.pccs.ca_pem)
    async with PccsSource(
        pccs, site.root_ca, folder, now=now, on_facts=lambda _: fetched.set()
    ) as opened:
        looking = asyncio.create_task(opened.refresh_until_cancelled(every=0))
        await asyncio.wait(
            [looking, waiting := asyncio.create_task(fetched.wait())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        waiting.cancel()
        assert not looking.done()
        yield opened
        looking.cancel()


class BrokenClock:
    """A clock that raises an unexpected error ``failures`` times, after ``before`` answers."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.before = self.failures = 0

    def __call__(self) -> datetime:
        self.before -= 1
        if self.before < 0 < self.failures:
            self.failures -= 1
            raise ZeroDivisionError
        return self._site.now


@pytest.fixture
async def defects() -> list[BaseException]:
    """Return a list that collects the unhandled errors of the event loop."""
    found: list[BaseException] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: found.append(context["exception"]))
    return found


async def test_a_look_that_fails_is_told_at_once_and_is_not_the_last_one(
    site: Site, tmp_path: Path, defects: list[BaseException]
) -> None:
    with site.pccs:
        async with source(site, tmp_path) as opened:
            await opened.collateral_of(site.kind)
        site.now += SEEN_WITHIN
        newer = site.publish(site.now)
        clock = BrokenClock(site)
        clock.failures = 2
        async with looked_after(site, tmp_path, clock) as opened:
            assert opened.expires() == read_facts(newer).expires
    assert [type(defect) for defect in defects] == [ZeroDivisionError] * 2


async def test_a_fetch_that_fails_as_nobody_foresaw_is_told_and_what_is_kept_serves(
    site: Site, defects: list[BaseException]
) -> None:
    clock, warned = BrokenClock(site), list[str]()
    with site.pccs:
        pccs = Pccs(site.pccs.url, site.pccs.ca_pem)
        async with PccsSource(pccs, site.root_ca, now=clock, warn=warned.append) as opened:
            kept = await opened.collateral_of(site.kind)
            site.now += SEEN_WITHIN
            assert opened.at_hand(site.kind) == kept
            clock.before, clock.failures = 0, 1
            await finished(opened)
            assert opened.fetches() == {"fetched": 1, "failed": 1}
            assert await opened.collateral_of(site.kind) == kept
    assert [type(defect) for defect in defects] == [ZeroDivisionError]
    assert len(warned) == 1
