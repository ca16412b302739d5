"""Refused activations are kept with their reasons, and nobody can push out what others need."""

from pathlib import Path

import msgspec
from support.samples.activation import TLS_CERT, deployment, marble_manifest, quoted_request
from support.samples.deployment import user

from keyhouse.base.errors import ForbiddenError, KeyhouseError
from keyhouse.coordinator import ActivationRequest
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.server.services.activation_outcomes import MOST, MOST_OF_TYPE, Refusals
from keyhouse.server.services.activations import ActivationService
from keyhouse.server.services.events import LONGEST_REASON
from keyhouse.wire.client_api import RefusedActivation

SECOND = 1_000_000
TYPES = {f"type{number}": {"Package": "app"} for number in range(40)}
POLICY = policy_of(marble_manifest(TYPES))


class Kept:
    """Refusals without quotes, one a second."""

    def __init__(self, refusals: Refusals | None = None) -> None:
        self.now = 0
        self.refusals = refusals or Refusals(self.now)

    def add(self, marble_type: str, problem: str, uuid: str = "") -> None:
        self.now += SECOND
        request = ActivationRequest(quote=b"", csr=b"", marble_type=marble_type, uuid=uuid)
        recipe = POLICY.recipe(marble_type)
        self.refusals.add(self.now, request, recipe, None, ForbiddenError(problem, hint="do this"))

    @property
    def all(self) -> tuple[RefusedActivation, ...]:
        return self.refusals.newest_first().refused


async def refuse(
    activations: ActivationService, request: ActivationRequest, identity: bytes
) -> None:
    try:
        await activations.activate(request, identity)
    except KeyhouseError:
        return
    raise AssertionError("it was activated")


def test_equal_refusals_are_counted_and_others_kept_beside_them() -> None:
    kept = Kept()
    for uuid in ("one", "two", "three"):
        kept.add("type1", "no", uuid)
    kept.add("type2", "no")
    kept.add("type1", "never")
    kept.add("type1", "no", "four")

    assert [(each.marble_type, each.reason, each.count, each.uuid) for each in kept.all] == [
        ("type1", "no", 4, "four"),
        ("type1", "never", 1, ""),
        ("type2", "no", 1, ""),
    ]
    assert kept.all[0] == RefusedActivation(
        time="1970-01-01T00:00:06.000Z",
        first="1970-01-01T00:00:01.000Z",
        count=4,
        marble_type="type1",
        uuid="four",
        package="app",
        code="forbidden",
        reason="no",
        hint="do this",
    )
    assert kept.refusals.newest_first().since == "1970-01-01T00:00:00.000Z"


def test_a_flood_of_one_type_pushes_out_only_its_own() -> None:
    kept = Kept()
    kept.add("type1", "the one that matters")
    for number in range(10 * MOST):
        kept.add("type2", f"reason {number}")

    assert len(kept.all) == MOST_OF_TYPE + 1
    assert kept.all[0].reason == f"reason {10 * MOST - 1}"
    assert kept.all[-1].reason == "the one that matters"


def test_a_flood_of_unknown_types_is_one_type() -> None:
    kept = Kept()
    kept.add("type1", "the one that matters")
    for number in range(10 * MOST):
        kept.add(f"unknown{number}", "the manifest has no such type")

    assert len(kept.all) == MOST_OF_TYPE + 1
    assert {each.package for each in kept.all[:-1]} == {""}
    assert kept.all[-1].reason == "the one that matters"


def test_all_types_together_have_fixed_room() -> None:
    kept = Kept()
    for number in range(MOST_OF_TYPE):
        for marble_type in TYPES:
            kept.add(marble_type, f"reason {number}")

    assert len(kept.all) == MOST
    assert kept.all[-1].reason == f"reason {MOST_OF_TYPE - -(-MOST // len(TYPES))}"


def test_long_texts_are_cut() -> None:
    kept = Kept()
    kept.add("x" * 1_000_000, "y" * 1_000_000, "z" * 1_000_000)

    assert len(msgspec.json.encode(kept.all)) < LONGEST_REASON + 600


async def test_the_measurements_of_a_quote_are_kept_if_it_is_the_workloads_own(
    tmp_path: Path,
) -> None:
    async with deployment(tmp_path, marble_manifest()) as opened:
        old, thief = quoted_request(isvsvn=1), user("thief").der
        await refuse(opened.activations, old, TLS_CERT)
        await refuse(opened.activations, old, thief)  # of someone else: anybody may have seen it
        await refuse(opened.activations, msgspec.structs.replace(old, quote=b"x"), TLS_CERT)
        await opened.activations.activate(quoted_request(), TLS_CERT)

        foreign, broken, own = sorted(opened.refusals.newest_first().refused, key=str)
        assert own.quoted
        assert (own.unique_id, own.signer_id) == ("01" * 32, "ab" * 32)
        assert (own.tcb_status, own.package, own.uuid) == ("UpToDate", "app", old.uuid)
        assert "SecurityVersion: the enclave has 1" in own.reason
        assert own.hint == "start the newer build of the enclave"
        for each in (foreign, broken):
            assert not each.quoted
            assert each.unique_id == each.signer_id == each.tcb_status == ""
        assert (foreign.code, broken.code) == ("forbidden", "quote-refused")


async def test_who_has_proven_nothing_cannot_push_out_who_has(tmp_path: Path) -> None:
    async with deployment(tmp_path, marble_manifest()) as opened:
        await refuse(opened.activations, quoted_request(isvsvn=1), TLS_CERT)
        flood = Kept(opened.refusals)
        for number in range(MOST_OF_TYPE):
            for marble_type in ("web", *TYPES):
                flood.add(marble_type, f"reason {number}")

        assert len(flood.all) == MOST + 1
        assert [each.quoted for each in flood.all].count(True) == 1
