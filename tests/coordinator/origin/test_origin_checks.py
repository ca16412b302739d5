"""The checks of the line at a start: by a checkpoint, by quotes, and independent checks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
from msgspec.structs import replace
from support.samples.crafted import made
from support.samples.machines import NOW, collateral, platform
from support.samples.recovery import recoverable

from keyhouse import authority
from keyhouse.attestation.origin.rule import AcceptedCode, OriginRefusedError, OriginRule
from keyhouse.base.errors import BrokenError
from keyhouse.coordinator import Origin, Running
from keyhouse.coordinator.origin.checks import LineAddition
from keyhouse.journal import LineMark, Position, Vouched
from keyhouse.manifest import fingerprint
from keyhouse.server.services.line_quotes import LineQuotes
from keyhouse.server.services.quote_checks import QuoteChecks
from keyhouse.transparency.leaf import object_name

TIME = int(NOW.timestamp()) * 1_000_000
PLACE = Position(1, 1, b"c" * 32)
FIRST, SECOND = recoverable([]), recoverable([], secrets=4)


def origin(rule: OriginRule | None = None, claim: str = "") -> Origin:
    @asynccontextmanager
    async def checks() -> AsyncIterator[QuoteChecks]:
        yield QuoteChecks(platform().root_ca, lambda _: collateral(), lambda: NOW)

    quotes = LineQuotes(platform(), checks, since=NOW.replace(year=2020))
    return Origin(rule or OriginRule(), quotes, claim=claim, version="0.1.0")


class Kept(NamedTuple):
    """A state with two manifests in its line, and the objects beside its log."""

    state: Running
    objects: dict[str, bytes]

    def require(self, by: Origin, vouched: Vouched | None = None) -> None:
        async def read(name: str) -> bytes | None:
            return self.objects.get(name)

        asyncio.run(by.require(self.state, read, vouched))

    def vouched(self, by: Origin, *, is_own: bool = True) -> Vouched:
        mark = by.mark(self.state)
        assert mark is not None
        return Vouched(mark, PLACE, is_own=is_own)

    def without_objects(self) -> "Kept":
        return self._replace(objects={})


@pytest.fixture(scope="module")
def kept() -> Kept:
    async def grow() -> Kept:
        by = origin()
        objects: dict[str, bytes] = {}

        def extended(state: Running, made_: LineAddition) -> Running:
            objects.update((object_name(raw), raw) for raw in made_.objects)
            return replace(state, line=(*state.line, *made_.items))

        first = made(FIRST).running
        first = extended(first, await by.creation_entries(first, TIME))
        after = with_manifest(first, SECOND)
        return Kept(extended(after, await by.update_entries(first, after, TIME)), objects)

    return asyncio.run(grow())


def with_manifest(state: Running, raw: bytes) -> Running:
    return replace(state, manifest=raw, signature=authority.sign_manifest(state.keys, raw))


def test_a_line_is_proven_by_its_quotes_or_by_a_checkpoint(kept: Kept) -> None:
    kept.require(origin())
    kept.without_objects().require(origin(), kept.vouched(origin()))
    with pytest.raises(OriginRefusedError, match=f"{fingerprint(FIRST)} is missing"):
        kept.without_objects().require(origin())


def test_behind_a_checkpoint_the_quotes_count(kept: Kept) -> None:
    first = replace(with_manifest(kept.state, FIRST), line=kept.state.line[:1])
    early = Kept(first, {}).vouched(origin())
    kept.require(origin(), early)
    with pytest.raises(OriginRefusedError, match=f"{fingerprint(SECOND)} is missing"):
        kept.without_objects().require(origin(), early)
    with pytest.raises(OriginRefusedError, match="shorter"):
        Kept(first, kept.objects).require(origin(), kept.vouched(origin()))


def test_a_checkpoint_of_another_rule_or_of_the_signer_is_none(kept: Kept) -> None:
    own = origin(OriginRule(AcceptedCode(signer=False)))
    kept.require(own)
    kept.without_objects().require(own, kept.vouched(own))
    with pytest.raises(OriginRefusedError, match=f"{fingerprint(FIRST)} is missing"):
        kept.without_objects().require(own, kept.vouched(origin()))
    by_signer = kept.vouched(own, is_own=False)
    with pytest.raises(OriginRefusedError, match="whole signer"):
        kept.without_objects().require(own, by_signer)
    kept.require(own, by_signer)
    kept.without_objects().require(origin(), kept.vouched(origin(), is_own=False))


def test_a_checkpoint_of_another_root_is_refused(kept: Kept) -> None:
    found = kept.vouched(origin())
    other = LineMark(b"r" * 32, found.line.entries, found.line.last, found.line.rule)
    with pytest.raises(OriginRefusedError, match="root certificate differs"):
        kept.require(origin(), replace(found, line=other))


def test_the_root_key_signs_for_its_certificate(kept: Kept) -> None:
    stranger = made(FIRST).running.keys
    keys = replace(stranger, root_cert=kept.state.keys.root_cert)
    for state in (replace(kept.state, keys=keys), replace(kept.state, signature=b"none")):
        with pytest.raises(OriginRefusedError, match="does not belong to its root certificate"):
            Kept(state, kept.objects).require(origin(), kept.vouched(origin()))


def test_a_line_ends_with_the_manifest_in_force(kept: Kept) -> None:
    state = with_manifest(kept.state, FIRST)
    with pytest.raises(BrokenError, match=f"{fingerprint(SECOND)}.*{fingerprint(FIRST)}"):
        Kept(state, kept.objects).require(origin(), kept.vouched(origin()))


def test_a_claim_names_the_first_manifest(kept: Kept) -> None:
    kept.require(origin(claim=fingerprint(FIRST)))
    for claim in (fingerprint(SECOND), "00" * 32):
        for vouched in (None, kept.vouched(origin())):
            with pytest.raises(OriginRefusedError, match=f"{fingerprint(FIRST)}.*{claim}"):
                kept.require(origin(claim=claim), vouched)


def test_a_state_without_a_line_needs_a_rule_that_names_its_root(kept: Kept) -> None:
    old = Kept(replace(kept.state, line=()), {})
    root = kept.vouched(origin()).line.root.hex()
    adopting = OriginRule(adopted=root)
    old.require(origin(adopting))
    with pytest.raises(OriginRefusedError, match=f"--adopt-root {root}|the state has no line"):
        old.require(origin())
    with pytest.raises(OriginRefusedError, match="nothing shows its first manifest"):
        old.require(origin(adopting, claim=fingerprint(FIRST)))
    with pytest.raises(OriginRefusedError, match="the line is missing"):
        old.require(origin(adopting), kept.vouched(origin()))


def test_another_coordinator_s_state_continues_the_line(kept: Kept) -> None:
    async def read(name: str) -> bytes | None:
        return kept.objects.get(name)

    async def nothing(name: str) -> bytes | None:
        del name
        return None

    def continued(after: Running, read_object: object = read) -> None:
        by = origin()
        asyncio.run(by.require_continued(first, after, read_object))  # type: ignore[arg-type]

    first = replace(with_manifest(kept.state, FIRST), line=kept.state.line[:1])
    continued(first, nothing)
    continued(kept.state)
    with pytest.raises(OriginRefusedError, match=f"{fingerprint(SECOND)} is missing"):
        continued(kept.state, nothing)
    with pytest.raises(OriginRefusedError, match="the line is missing"):
        continued(replace(kept.state, line=()))
    with pytest.raises(BrokenError, match=f"{fingerprint(FIRST)}.*{fingerprint(SECOND)}"):
        continued(with_manifest(first, SECOND))
    with pytest.raises(OriginRefusedError, match="another root"):
        continued(replace(kept.state, keys=made(FIRST).running.keys))
