"""Forged collateral: exchanged parts, wrong signers, and insiders with rightful keys."""

from datetime import timedelta
from random import Random
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from fuzz.documents import changed_document
from fuzz.forgery.case import ForgedCase, covered_by_collateral, part
from fuzz.forgery.world import NOW, World, name_of
from fuzz.mutations import flipped, mutated

from keyhouse.attestation import Collateral
from keyhouse_simulation import Lists
from keyhouse_simulation.certificates import issue_leaf, issue_list
from keyhouse_simulation.machine import pem, sign

__all__ = ["changed_field", "insider_document", "insider_list", "other_fields", "wrong_signer"]

_FIELDS: Final = Collateral.__struct_fields__
_SIGNER_NAME: Final = "Keyhouse Simulation TCB Signing"
_ROOT_NAME: Final = "Keyhouse Simulation Root CA"

replace = msgspec.structs.replace


def changed_field(case: ForgedCase, chance: Random) -> ForgedCase:
    """Return ``case`` with changed bytes in one field of its collateral."""
    name = chance.choice(_FIELDS)
    value = getattr(case.collateral, name)
    data = value.encode() if isinstance(value, str) else value
    data = flipped(data, chance) if chance.random() < 0.5 else mutated(data, chance)
    new: object = data
    if isinstance(value, str):
        new = data.decode(errors="replace")
    return _with(case, replace(case.collateral, **{name: new}))


def other_fields(case: ForgedCase, others: tuple[Collateral, ...], chance: Random) -> ForgedCase:
    """Return ``case`` with some fields from one collateral of ``others``."""
    count = chance.choice((1, 1, 2, 2, 3, 5, len(_FIELDS)))
    other = chance.choice(others)
    taken = {name: getattr(other, name) for name in chance.sample(_FIELDS, count)}
    collateral = replace(case.collateral, **taken)
    # In half of the cases, exchange a document together with its signature and chain.
    for name in ("tcb_info", "qe_identity"):
        if name in taken and chance.random() < 0.5:
            names = (f"{name}_signature", f"{name}_issuer_chain")
            collateral = replace(collateral, **{each: getattr(other, each) for each in names})
    return _with(case, collateral)


def wrong_signer(case: ForgedCase, world: World, chance: Random) -> ForgedCase:
    """Return ``case`` with a changed part, signed by a key without the right to sign the part."""
    return chance.choice((_wrong_document, _wrong_document, _wrong_list))(case, world, chance)


def _wrong_document(case: ForgedCase, world: World, chance: Random) -> ForgedCase:
    vendor, stranger = world.vendor, world.stranger
    name = chance.choice(("tcb_info", "qe_identity"))
    text = getattr(case.collateral, name)
    if chance.random() < 0.6:
        text = changed_document(text, chance)
    # A key of an outsider, or a key of the vendor for a different purpose.
    keys = (world.attacker_key, stranger.tcb_key, vendor.pck_ca_key, vendor.pck_key)
    key = chance.choice(keys)
    chains = [
        pem(vendor.tcb_signer, vendor.root),
        pem(vendor.pck_ca, vendor.root),
        pem(vendor.pck, vendor.root),
        pem(stranger.tcb_signer, stranger.root),
        pem(stranger.tcb_signer, vendor.root),
        pem(_signer(world, key, chance.choice(keys)), vendor.root),
        pem(_signer(world, key, vendor.pck_ca_key, name_of(vendor)), vendor.pck_ca, vendor.root),
    ]
    matching = {id(vendor.pck_ca_key): chains[1], id(vendor.pck_key): chains[2]}
    chain = matching.get(id(key), chains[5]) if chance.random() < 0.5 else chance.choice(chains)
    collateral = replace(
        case.collateral,
        **{
            name: text,
            f"{name}_signature": sign(key, text.encode()),
            f"{name}_issuer_chain": chain,
        },
    )
    return _with(case, collateral)


def _signer(
    world: World,
    key: ec.EllipticCurvePrivateKey,
    issuer: ec.EllipticCurvePrivateKey,
    name: str = _ROOT_NAME,
) -> x509.Certificate:
    return issue_leaf(_SIGNER_NAME, key, (name, issuer), world.vendor.pck.not_valid_before_utc)


def _wrong_list(case: ForgedCase, world: World, chance: Random) -> ForgedCase:
    vendor, stranger = world.vendor, world.stranger
    keys = (world.attacker_key, vendor.tcb_key, vendor.pck_key, stranger.root_key)
    lists = Lists(number=chance.choice((1, 2, 2**31)), issued_ago=timedelta(hours=1))
    if chance.random() < 0.5:
        key = chance.choice((*keys, vendor.pck_ca_key))
        made = issue_list(vendor.root, key, [], lists, NOW)
        return _with(case, replace(case.collateral, root_ca_crl=_der(made)))
    key = chance.choice((*keys, vendor.root_key))
    made = issue_list(vendor.pck_ca, key, [], lists, NOW)
    collateral = replace(case.collateral, pck_crl=_der(made))
    if chance.random() < 0.4:  # with a matching chain
        issuer = chance.choice((vendor.root, vendor.tcb_signer, stranger.pck_ca))
        fitting = {id(vendor.root): vendor.root_key, id(vendor.tcb_signer): vendor.tcb_key}
        made = issue_list(issuer, fitting.get(id(issuer), stranger.pck_ca_key), [], lists, NOW)
        chain = pem(issuer, vendor.root)
        collateral = replace(collateral, pck_crl=_der(made), pck_crl_issuer_chain=chain)
    return _with(case, collateral)


def insider_document(case: ForgedCase, world: World, chance: Random) -> ForgedCase:
    """Return ``case`` with unusual documents that the vendor has signed."""
    collateral, signed = case.collateral, set(case.signed)
    signer = world.vendor.tcb_signer.tbs_certificate_bytes
    for name, role in chance.choice((_TCB, _TCB, _QE, _TCB + _QE)):
        text = changed_document(getattr(collateral, name), chance)
        signature = sign(world.vendor.tcb_key, text.encode())
        collateral = replace(collateral, **{name: text, f"{name}_signature": signature})
        signed.add(part(role, text.encode(), signer))
    return replace(_with(case, collateral), signed=frozenset(signed))


_TCB: Final = (("tcb_info", "tcb-info"),)
_QE: Final = (("qe_identity", "qe-id"),)


def insider_list(case: ForgedCase, world: World, chance: Random) -> ForgedCase:
    """Return ``case`` with an unusual revocation list that the vendor has signed."""
    vendor = world.vendor
    lists = Lists(
        number=chance.choice((0, 1, 255, 2**31, 2**64, 2**150)),
        issued_ago=timedelta(days=chance.choice((-400, -1, 0, 1, 400))),
        valid_for=timedelta(days=chance.choice((0, 1, 2, 365))),
    )
    revoked = chance.sample(
        (vendor.pck, vendor.pck_ca, vendor.tcb_signer, world.neighbour.pck, vendor.root),
        chance.randrange(3),
    )
    if chance.random() < 0.5:
        made = issue_list(vendor.root, vendor.root_key, revoked, lists, NOW)
        collateral = replace(case.collateral, root_ca_crl=_der(made))
    else:
        made = issue_list(vendor.pck_ca, vendor.pck_ca_key, revoked, lists, NOW)
        collateral = replace(case.collateral, pck_crl=_der(made))
    signed = case.signed | frozenset(covered_by_collateral(collateral))
    return replace(_with(case, collateral), signed=signed)


def _der(made: x509.CertificateRevocationList) -> bytes:
    return made.public_bytes(Encoding.DER)


def _with(case: ForgedCase, collateral: Collateral) -> ForgedCase:
    return replace(case, collateral=collateral, genuine=False)
