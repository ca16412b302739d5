"""Forged quotes and collateral against the verifier.

Oracle: ``forgery.oracle`` decides which cases may be accepted. The verifier must accept genuine
cases, which are drawn rarely. The only permitted exception is ``QuoteRefusedError``, for bundles
of collateral ``CollateralRefusedError``.

An accepted case is *fitting* if rightful signers signed all covered parts. Examples: exchanged
parts that belong together, a second signature over the same bytes, and acceptable documents of an
insider.
"""

import functools
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import ClassVar, Final

import msgspec
from fuzz.forgery.case import ForgedCase, parts_of_quote
from fuzz.forgery.collateral import (
    changed_field,
    insider_document,
    insider_list,
    other_fields,
    wrong_signer,
)
from fuzz.forgery.oracle import require_collateral, require_quote
from fuzz.forgery.quotes import (
    forged_chain,
    insider_machine,
    insider_quote,
    other_parts,
    unbound_quote,
)
from fuzz.forgery.world import make_world
from fuzz.mutations import flipped, mutated, spliced
from fuzz.target import FindingError, Target

from keyhouse.attestation import (
    Collateral,
    CollateralRefusedError,
    QuoteRefusedError,
    Verdict,
    Verifier,
    add_header,
    platform_kind,
    read_collateral,
    require_sound,
    write_collateral,
)
from keyhouse.attestation.errors import CollateralUnusableError

__all__ = ["CollateralTarget", "QuoteTarget", "Verify"]

Verify = Callable[[bytes, bytes, Collateral, datetime], Verdict]
"""Takes root, quote, collateral and time; returns a verdict or raises ``QuoteRefusedError``."""

_Way = Callable[[ForgedCase, Random], ForgedCase]
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_DAY: Final = 86_400
_GENUINE: Final = 0.005

_decoder = msgspec.msgpack.Decoder(ForgedCase)
_encode = msgspec.msgpack.Encoder().encode
replace = msgspec.structs.replace


@functools.lru_cache(maxsize=16)
def _verifier(root: bytes) -> Verifier:
    return Verifier(root)


def _verify(root: bytes, quote: bytes, collateral: Collateral, at: datetime) -> Verdict:
    return _verifier(root).verify(quote, collateral, at)


class _Forger(Target):
    """Draws forged cases from quotes of simulated machines and recorded quotes of real machines."""

    def __init__(self) -> None:
        world = make_world()
        self._world = world
        self._others = (*world.collaterals, world.vm_collateral, world.strange_collateral)
        self._quotes = (*world.quotes, *world.vm_quotes, world.strange_quote)
        enclave, *vms = world.genuine
        self._simulated = (enclave, enclave, *vms)
        self._of_all: tuple[_Way, ...] = ()
        self._of_simulated: tuple[_Way, ...] = ()
        self._of_insiders: tuple[_Way, ...] = ()

    def draw(self, chance: Random) -> bytes:
        """Return a forged case, or rarely a genuine case."""
        if chance.random() < 0.25:
            case, ways = chance.choice(self._world.recorded), self._of_all
        else:
            case, ways = chance.choice(self._simulated), self._of_all + self._of_simulated
        kind = chance.random()
        if kind < _GENUINE:
            return _encode(case)
        if kind < 0.3 and case in self._simulated:
            # Insiders come first. Otherwise an insider could sign a forged part.
            case = chance.choice(self._of_insiders)(case, chance)
            count = chance.choice((0, 0, 0, 1))
        else:
            count = chance.choice((1, 1, 1, 1, 2))
        for _ in range(count):
            case = _tried(chance.choice(ways), case, chance)
        return _encode(case)

    def _mixed(self, case: ForgedCase, chance: Random) -> ForgedCase:
        recorded = tuple(each.collateral for each in self._world.recorded)
        return other_fields(case, (*self._others, *recorded), chance)


class QuoteTarget(_Forger):
    """Quotes with collateral against ``Verifier.verify``, or against the function ``verify``."""

    name: ClassVar[str] = "quotes"
    about: ClassVar[str] = "forged quotes and collateral against the verifier"

    def __init__(self, verify: Verify = _verify) -> None:
        super().__init__()
        self._verify = verify
        world = self._world
        self._of_all = (
            _changed_quote,
            _cut_quote,
            lambda case, chance: replace(
                case, quote=spliced(case.quote, chance.choice(self._quotes), chance), genuine=False
            ),
            lambda case, chance: other_parts(case, self._all_quotes(), chance),
            lambda case, chance: replace(
                case, quote=chance.choice(self._all_quotes()), genuine=False
            ),
            *(changed_field, self._mixed, _other_time, _other_signature, _other_form),
        )
        self._of_simulated = (
            lambda case, chance: unbound_quote(case, world, chance),
            lambda case, chance: forged_chain(case, world, chance),
            lambda case, chance: wrong_signer(case, world, chance),
        )
        self._of_insiders = (
            lambda case, chance: insider_quote(case, world, chance),
            lambda case, chance: insider_machine(case, world, chance),
            lambda case, chance: insider_document(case, world, chance),
            lambda case, chance: insider_list(case, world, chance),
        )

    def _all_quotes(self) -> tuple[bytes, ...]:
        return (*self._quotes, *(each.quote for each in self._world.recorded))

    def judge(self, case: bytes) -> str:
        """Verify the case. The oracle judges an accepted case."""
        forged = _decoder.decode(case)
        at = datetime.fromtimestamp(forged.at, UTC)
        try:
            verdict = self._verify(forged.root, forged.quote, forged.collateral, at)
        except QuoteRefusedError as refused:
            if forged.genuine:
                raise FindingError(f"a genuine quote was refused: {refused}") from None
            return f"refused: {refused.reason}"
        require_quote(forged, verdict)
        try:
            kind = platform_kind(forged.quote, forged.root)
        except QuoteRefusedError:  # a coordinator would fetch no collateral for this quote
            return "accepted: of no known kind"
        if kind.fmspc != verdict.fmspc.hex():
            raise FindingError("two readers of one PCK certificate return different FMSPCs")
        return "accepted: genuine" if forged.genuine else "accepted: fitting"


class CollateralTarget(_Forger):
    """Bundles of collateral without a quote, against their reader and ``require_sound``."""

    name: ClassVar[str] = "collateral"
    about: ClassVar[str] = "forged bundles of collateral, without a quote"

    def __init__(self) -> None:
        super().__init__()
        world = self._world
        self._of_all = (changed_field, self._mixed, _other_time, _other_signature)
        self._of_simulated = (lambda case, chance: wrong_signer(case, world, chance),)
        self._of_insiders = (
            lambda case, chance: insider_document(case, world, chance),
            lambda case, chance: insider_list(case, world, chance),
        )

    def draw(self, chance: Random) -> bytes:
        """Return a case with the bundle of its collateral in ``quote``, sometimes changed."""
        case = _decoder.decode(super().draw(chance))
        bundle = write_collateral(case.collateral)
        if chance.random() < 0.1:
            bundle, case = mutated(bundle, chance), replace(case, genuine=False)
        return _encode(replace(case, quote=bundle))

    def judge(self, case: bytes) -> str:
        """Read the bundle. The oracle judges an accepted bundle."""
        forged = _decoder.decode(case)
        at = datetime.fromtimestamp(forged.at, UTC)
        try:
            collateral = read_collateral(forged.quote)
            require_sound(collateral, forged.root, at)
        except CollateralRefusedError as refused:
            if forged.genuine:
                raise FindingError(f"genuine collateral was refused: {refused}") from None
            reason = (
                refused.reason if isinstance(refused, CollateralUnusableError) else "unreadable"
            )
            return f"refused: {reason}"
        require_collateral(replace(forged, collateral=collateral))
        return "accepted: genuine" if forged.genuine else "accepted: fitting"


def _tried(way: _Way, case: ForgedCase, chance: Random) -> ForgedCase:
    """Return a forged ``case``. Return ``case`` unchanged if this way cannot read it any more."""
    try:
        return way(case, chance)
    except (LookupError, ValueError, QuoteRefusedError):
        return case


def _changed_quote(case: ForgedCase, chance: Random) -> ForgedCase:
    change = flipped if chance.random() < 0.6 else mutated
    return replace(case, quote=change(case.quote, chance), genuine=False)


def _cut_quote(case: ForgedCase, chance: Random) -> ForgedCase:
    cut = case.quote[: chance.randrange(len(case.quote))]
    longer = case.quote + chance.randbytes(chance.randrange(1, 20))
    return replace(case, quote=chance.choice((cut, longer)), genuine=False)


def _other_time(case: ForgedCase, chance: Random) -> ForgedCase:
    days = chance.choice((-400, -31, -30, -29, -2, -1, 0, 1, 300, 363, 364, 365, 366, 20_000))
    seconds = chance.choice((-1, 0, 1, chance.randrange(_DAY)))
    return replace(case, at=max(0, case.at + days * _DAY + seconds), genuine=False)


def _other_signature(case: ForgedCase, chance: Random) -> ForgedCase:
    """Replace s of a signature by n - s, which is valid too, or r and s by unusual numbers."""
    name = chance.choice(("tcb_info_signature", "qe_identity_signature", "quote"))
    if name == "quote":
        parts = parts_of_quote(case.quote)
        field = chance.choice(("signature", "qe_signature"))
        changed = _twin(getattr(parts, field), chance)
        return replace(case, quote=replace(parts, **{field: changed}).joined(), genuine=False)
    changed = _twin(getattr(case.collateral, name), chance)
    return replace(case, collateral=replace(case.collateral, **{name: changed}), genuine=False)


def _twin(signature: bytes, chance: Random) -> bytes:
    r, s = int.from_bytes(signature[:32]), int.from_bytes(signature[32:])
    if chance.random() < 0.5:
        return r.to_bytes(32) + ((_ORDER - s) % _ORDER).to_bytes(32)
    odd = (0, 1, _ORDER - 1, _ORDER, 2**256 - 1)
    return chance.choice((r, *odd)).to_bytes(32) + chance.choice(odd).to_bytes(32)


def _other_form(case: ForgedCase, chance: Random) -> ForgedCase:
    """Change parts without a signature: add the header in front, or change line ends in chains."""
    how = chance.randrange(4)
    if how == 0:
        return replace(case, quote=add_header(case.quote), genuine=False)
    parts = parts_of_quote(case.quote)
    chain = parts.chain.removesuffix(b"\0")
    lines = (chain.replace(b"\n", b"\r\n"), chain.rstrip(b"\n"), chain + b"\0")[how - 1]
    return replace(case, quote=replace(parts, chain=lines).joined(), genuine=False)
