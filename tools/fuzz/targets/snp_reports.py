"""Forged reports of SEV-SNP, with certificates and revocation lists, against the verifier.

Oracle: ``forgery.snp`` decides which cases may be accepted. The verifier must accept genuine cases,
which are drawn rarely. The only permitted exception is ``QuoteRefusedError``. An accepted case is
*fitting* if rightful signers signed all covered parts.
"""

import functools
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import ClassVar, Final

import msgspec
from fuzz.forgery.snp import NOW, SIGNED, ForgedReport, SnpWorld, make_snp_world, require_report
from fuzz.mutations import flipped, mutated, spliced
from fuzz.target import FindingError, Target

from keyhouse.attestation import AmdCollateral, QuoteRefusedError, Verifier
from keyhouse.attestation.kinds.snp.form import SNP_REPORT, SnpCertificate, write_table
from keyhouse_simulation import QuotedSnp, SimulatedPlatform, make_machine
from keyhouse_simulation.snp import ROOT

__all__ = ["SnpTarget"]

_Way = Callable[[ForgedReport, SnpWorld, Random], ForgedReport]

_DAY: Final = 86_400
_DATA: Final = b"d" * 64
_GENUINE: Final = 0.02
_ORDER: Final = int(
    "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"
    "C7634D81F4372DDF581A0DB248B0A77AECEC196ACCC52973",
    16,
)  # of P-384
_VMS: Final = (
    *(QuotedSnp(version=version) for version in (2, 3, 5)),
    QuotedSnp(signer_info=0b100),  # signed by a VLEK
    QuotedSnp(signer_info=1, author_key_digest=b"a" * 48, vmpl=3),
)
_decoder = msgspec.msgpack.Decoder(ForgedReport)
_encode = msgspec.msgpack.Encoder().encode
replace = msgspec.structs.replace


@functools.cache
def _world() -> tuple[SnpWorld, tuple[ForgedReport, ...]]:
    """Return a world, and a genuine case for each of ``_VMS``. The generation takes a second."""
    world = make_snp_world()
    return world, tuple(_genuine(world, vm) for vm in _VMS)


@functools.cache
def _verifier() -> Verifier:
    platform = SimulatedPlatform(make_machine(NOW))
    return Verifier(platform.root_ca, platform.amd_roots)


def _genuine(world: SnpWorld, vm: QuotedSnp) -> ForgedReport:
    report = world.chip.report(vm, _DATA)
    is_lent = bool(vm.signer_info & 0b100)
    table = {
        SnpCertificate.VLEK if is_lent else SnpCertificate.VCEK: world.keys[is_lent],
        SnpCertificate.ASK: world.authorities[is_lent],
        SnpCertificate.ARK: ROOT,
    }
    return ForgedReport(
        report + write_table(table),
        (),
        world.lists[:1],
        int(NOW.timestamp()),
        world.signed | {world.of_report(report[:SIGNED])},
        genuine=True,
    )


class SnpTarget(Target):
    """Reports of a simulated AMD against ``Verifier.verify``."""

    name: ClassVar[str] = "snp"
    about: ClassVar[str] = "forged reports of SEV-SNP against the verifier"

    def draw(self, chance: Random) -> bytes:
        """Return a forged case, or rarely a genuine case."""
        world, genuine = _world()
        case = chance.choice(genuine)
        if chance.random() < _GENUINE:
            return _encode(case)
        case = replace(case, genuine=False)
        if chance.random() < 0.5:
            case = chance.choice(_OF_INSIDERS)(case, world, chance)
            count = chance.choice((0, 0, 0, 1))
        else:
            count = chance.choice((1, 1, 1, 1, 2))
        for _ in range(count):
            case = chance.choice(_WAYS)(case, world, chance)
        return _encode(case)

    def judge(self, case: bytes) -> str:
        """Verify the case. The oracle judges an accepted case."""
        forged = _decoder.decode(case)
        collateral = AmdCollateral(forged.certificates, forged.lists)
        try:
            verdict = _verifier().verify(
                forged.quote, collateral, datetime.fromtimestamp(forged.at, UTC)
            )
        except QuoteRefusedError as refused:
            if forged.genuine:
                raise FindingError(f"a genuine report was refused: {refused}") from None
            return f"refused: {refused.reason}"
        require_report(forged, verdict)
        return "accepted: genuine" if forged.genuine else "accepted: fitting"


def _changed(case: ForgedReport, _: SnpWorld, chance: Random) -> ForgedReport:
    """Change bytes of the report or the table, more often at their beginnings."""
    change = flipped if chance.random() < 0.6 else mutated
    begin = chance.choice((0, 0, SIGNED, SNP_REPORT))
    end = chance.choice((SIGNED, SNP_REPORT, SNP_REPORT + 96, len(case.quote)))
    if begin >= end:
        begin, end = 0, len(case.quote)
    parts = (case.quote[:begin], case.quote[begin:end], case.quote[end:])
    return replace(case, quote=parts[0] + change(parts[1], chance) + parts[2])


def _spliced(case: ForgedReport, world: SnpWorld, chance: Random) -> ForgedReport:
    other = chance.choice(_world()[1]).quote
    if chance.random() < 0.5:
        other = world.stranger.quote(QuotedSnp(), _DATA)
    if chance.random() < 0.5:
        return replace(case, quote=case.quote[:SNP_REPORT] + other[SNP_REPORT:])
    return replace(case, quote=spliced(case.quote, other, chance))


def _other_table(case: ForgedReport, world: SnpWorld, chance: Random) -> ForgedReport:
    """Put random certificates, forged and rightful, beside the report and into the collateral."""
    pool = (*world.keys, *world.authorities, *world.forged_certificates, ROOT)
    pool = (*pool, *(mutated(der, chance) for der in chance.sample(pool, 2)))
    kinds = chance.sample(list(SnpCertificate), chance.randrange(5))
    table = {kind: chance.choice(_of_kind(world, kind) or pool) for kind in kinds}
    beside = write_table(table)
    kept = chance.sample(pool, chance.randrange(5))
    usual = (*world.keys[:2], *world.authorities) if chance.random() < 0.6 else ()
    certificates = [*kept, *usual]
    chance.shuffle(certificates)
    return replace(case, quote=case.quote[:SNP_REPORT] + beside, certificates=tuple(certificates))


def _of_kind(world: SnpWorld, kind: SnpCertificate) -> tuple[bytes, ...]:
    """Return certificates for ``kind``, each rightful certificate twice, and all forged ones."""
    usual = {
        SnpCertificate.VCEK: world.keys,
        SnpCertificate.VLEK: world.keys,
        SnpCertificate.ASK: world.authorities,
        SnpCertificate.ARK: (ROOT,),
    }[kind]
    return (*usual, *usual, *world.forged_certificates)


def _other_lists(case: ForgedReport, world: SnpWorld, chance: Random) -> ForgedReport:
    pool = (*world.lists, *world.lists, *world.forged_lists, mutated(world.lists[1], chance))
    return replace(case, lists=tuple(chance.sample(pool, chance.randrange(4))))


def _other_time(case: ForgedReport, _: SnpWorld, chance: Random) -> ForgedReport:
    days = chance.choice((-40_000, -2300, -3, -2, -1, 1, 2, 29, 30, 31, 34_000, 40_000))
    at = case.at + days * _DAY + chance.choice((-1, 0, 1))
    return replace(case, at=max(0, at))


def _twin(case: ForgedReport, _: SnpWorld, chance: Random) -> ForgedReport:
    """Replace s of the signature by n - s, which is valid too, or by an unusual number."""
    begin = SIGNED + 72
    s = int.from_bytes(case.quote[begin : begin + 48], "little")
    other = chance.choice((_ORDER - s, _ORDER - s, 0, 1, _ORDER, _ORDER + s & 2**384 - 1))
    field = (other % 2**384).to_bytes(48, "little")
    return replace(case, quote=case.quote[:begin] + field + case.quote[begin + 48 :])


def _insider_report(case: ForgedReport, world: SnpWorld, chance: Random) -> ForgedReport:
    """Sign a changed report with the key of the chip. Real firmware makes no such report."""
    content = case.quote[:SIGNED]
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.choice((*range(0x50), *range(0x180, 0x1A4), *range(0x1E0, 0x210)))
        value = chance.choice((content[at] ^ 1 << chance.randrange(8), 0, 255))
        content = content[:at] + bytes([value]) + content[at + 1 :]
    quote = world.chip.signed(content) + case.quote[SNP_REPORT:]
    return replace(case, quote=quote, signed=case.signed | {world.of_report(content)})


_WAYS: Final[tuple[_Way, ...]] = (
    *(_changed, _changed, _spliced, _other_table, _other_table),
    *(_other_lists, _other_time, _twin),
)
_OF_INSIDERS: Final[tuple[_Way, ...]] = (_insider_report, _insider_report, _other_table)
