"""Forged quotes: by outsiders with their own keys, and by insiders with rightful keys."""

import hashlib
from random import Random
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from fuzz.forgery.case import ForgedCase, QuoteParts, covered_by_quote, parts_of_quote
from fuzz.forgery.world import World, name_of
from fuzz.mutations import flipped, mutated

from keyhouse_simulation import Pck
from keyhouse_simulation.certificates import issue_authority, issue_leaf, pck_extension
from keyhouse_simulation.machine import pem, sign

__all__ = ["forged_chain", "insider_machine", "insider_quote", "other_parts", "unbound_quote"]

_PCK_NAME: Final = "Keyhouse Simulation PCK Certificate"
_ROOT_NAME: Final = "Keyhouse Simulation Root CA"

replace = msgspec.structs.replace


def other_parts(case: ForgedCase, others: tuple[bytes, ...], chance: Random) -> ForgedCase:
    """Return ``case`` with one to three parts of its quote from other quotes."""
    parts, names = parts_of_quote(case.quote), list(QuoteParts.__struct_fields__[1:])
    for name in chance.sample(names, chance.choice((1, 1, 2, 3))):
        taken = getattr(parts_of_quote(chance.choice(others)), name)
        parts = replace(parts, **{name: taken})
    return _with(case, parts)


def unbound_quote(case: ForgedCase, world: World, chance: Random) -> ForgedCase:
    """Return a quote with a signature of the attacker's key. No rightful key confirms this key."""
    key, parts = world.attacker_key, parts_of_quote(case.quote)
    body = flipped(parts.body, chance) if chance.random() < 0.5 else parts.body
    parts = replace(parts, body=body, signature=sign(key, body))
    how = chance.randrange(4)
    if how > 0:  # the quote contains the attacker's key
        parts = replace(parts, key=_point(key))
    if how > 1:  # a report of the attacker's own quoting enclave confirms the key
        report = _binding(parts.qe_report, parts.key, parts.authentication)
        signer = chance.choice((key, world.vendor.attestation_key, world.stranger.pck_key))
        parts = replace(parts, qe_report=report, qe_signature=sign(signer, report))
    return _with(case, parts)


def forged_chain(case: ForgedCase, world: World, chance: Random) -> ForgedCase:
    """Return a consistent quote with a PCK chain that wrong keys have signed."""
    key, vendor = world.attacker_key, world.vendor
    start, extension = vendor.pck.not_valid_before_utc, pck_extension(Pck())
    wrong = chance.choice(_wrong_issuers(world))
    pck = issue_leaf(_PCK_NAME, key, (name_of(vendor), wrong), start, extension)
    chain = [pck, vendor.pck_ca, vendor.root]
    how = chance.randrange(5)
    if how == 1:  # a leaf, or the signer of documents, in the role of the authority
        authority = chance.choice((vendor.pck, vendor.tcb_signer, world.neighbour.pck))
        issuer = authority.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value
        signer = vendor.tcb_key if authority is vendor.tcb_signer else vendor.pck_key
        pck = issue_leaf(_PCK_NAME, key, (str(issuer), signer), start, extension)
        chain = [pck, authority, vendor.root]
        if chance.random() < 0.3:
            chain = [pck, authority, vendor.pck_ca, vendor.root]
    elif how == 2:  # an authority of the attacker with the name of the vendor's root as issuer
        ca = issue_authority(name_of(vendor), key, (_ROOT_NAME, wrong), start)
        pck = issue_leaf(_PCK_NAME, key, (name_of(vendor), key), start, extension)
        chain = [pck, ca, vendor.root]
    elif how == 3:  # the stranger's chain with the vendor's root at the end
        chain = [world.stranger.pck, world.stranger.pck_ca, vendor.root]
        key = world.stranger.pck_key
    elif how == 4:  # a leaf with the root as direct issuer
        pck = issue_leaf(_PCK_NAME, key, (_ROOT_NAME, wrong), start, extension)
        chain = [pck, vendor.root, vendor.root]
    return _with(case, _of_machine(parts_of_quote(case.quote), key, key, pem(*chain)))


def insider_quote(case: ForgedCase, world: World, chance: Random) -> ForgedCase:
    """Return a changed quote with signatures of the machine's own keys."""
    vendor, parts = world.vendor, parts_of_quote(case.quote)
    if chance.random() < 0.5:
        body = _changed_fields(parts.body, chance)
        return _signed(
            case, replace(parts, body=body, signature=sign(vendor.attestation_key, body))
        )
    if chance.random() < 0.5:
        parts = replace(parts, authentication=chance.randbytes(chance.choice((0, 1, 32, 900))))
    report = _binding(parts.qe_report, parts.key, parts.authentication)
    if chance.random() < 0.8:
        report = _changed_fields(report, chance)
    return _signed(
        case, replace(parts, qe_report=report, qe_signature=sign(vendor.pck_key, report))
    )


def insider_machine(case: ForgedCase, world: World, chance: Random) -> ForgedCase:
    """Return a quote of a machine with an unusual PCK certificate from the vendor."""
    vendor, key = world.vendor, world.neighbour.pck_key
    extension = pck_extension(_odd_pck(chance))
    if chance.random() < 0.6:
        extension = mutated(extension, chance)
    start = vendor.pck.not_valid_before_utc
    pck = issue_leaf(_PCK_NAME, key, (name_of(vendor), vendor.pck_ca_key), start, extension)
    chain = pem(pck, vendor.pck_ca, vendor.root)
    parts = _of_machine(parts_of_quote(case.quote), world.neighbour.attestation_key, key, chain)
    return _signed(case, parts)


def _wrong_issuers(world: World) -> list[ec.EllipticCurvePrivateKey]:
    vendor, stranger = world.vendor, world.stranger
    own = [vendor.tcb_key, vendor.pck_key, vendor.attestation_key, world.neighbour.pck_key]
    return [*own, stranger.root_key, stranger.pck_ca_key, world.attacker_key]


def _of_machine(
    parts: QuoteParts,
    attestation_key: ec.EllipticCurvePrivateKey,
    pck_key: ec.EllipticCurvePrivateKey,
    chain: str,
) -> QuoteParts:
    point = _point(attestation_key)
    report = _binding(parts.qe_report, point, parts.authentication)
    return replace(
        parts,
        signature=sign(attestation_key, parts.body),
        key=point,
        qe_report=report,
        qe_signature=sign(pck_key, report),
        chain=chain.encode(),
    )


def _odd_pck(chance: Random) -> Pck:
    odd = chance.randrange(5)
    return Pck(
        ppid=bytes(chance.choice((0, 15, 16, 17))) if odd == 0 else b"SIMULATED PPID 9",
        cpu_svn=chance.randbytes(chance.choice((16, 16, 15))) if odd == 1 else bytes([2]) * 16,
        pce_svn=chance.choice((0, 10, 12, 255, 65535, 65536, 2**40)) if odd == 2 else 11,
        pce_id=chance.choice((b"\0\1", b"\0", b"\0\0\0", b"")) if odd == 3 else b"\0\0",
        fmspc=chance.randbytes(chance.choice((6, 5, 7, 0))) if odd == 4 else Pck().fmspc,
    )


def _changed_fields(data: bytes, chance: Random) -> bytes:
    """Return ``data`` with some changed bytes. The length stays the same."""
    for _ in range(chance.choice((1, 1, 2, 8))):
        size = chance.choice((1, 2, 4))
        at = chance.randrange(len(data) - size)
        new = chance.choice((bytes(size), b"\xff" * size, chance.randbytes(size)))
        data = data[:at] + new + data[at + size :]
        data = flipped(data, chance)
    return data


def _binding(report: bytes, key: bytes, authentication: bytes) -> bytes:
    """Return a report of a quoting enclave that confirms ``key``."""
    digest = hashlib.sha256(key + authentication).digest()
    return report[:320] + digest + report[352:]


def _point(key: ec.EllipticCurvePrivateKey) -> bytes:
    numbers = key.public_key().public_numbers()
    return numbers.x.to_bytes(32) + numbers.y.to_bytes(32)


def _with(case: ForgedCase, parts: QuoteParts) -> ForgedCase:
    return replace(case, quote=parts.joined(), genuine=False)


def _signed(case: ForgedCase, parts: QuoteParts) -> ForgedCase:
    signed = case.signed | frozenset(covered_by_quote(parts))
    return replace(_with(case, parts), signed=signed)
