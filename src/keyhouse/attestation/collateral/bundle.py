"""A bundle: the collateral of a quote in a single JSON object.

Field names equal those of ``dcap_qvl.QuoteCollateralV3``, so bundles of other tools for air-gapped
sites work unchanged. Chains are PEM text, leaf first. Revocation lists and signatures are hex. TCB
info and QE identity are the signed JSON texts, byte for byte.
"""

import binascii

import msgspec

from keyhouse.attestation.errors import CollateralRefusedError
from keyhouse.base.hex_repr import Readable

MAX_COLLATERAL = 4 << 20
"""Maximum length in bytes of a bundle. Real bundles have about 20,000."""

_SIGNATURE = 64  # bytes of an ECDSA P-256 signature: r and s
_HINT = "fetch the bundle again: keyhouse collateral fetch QUOTE"


class Collateral(Readable, frozen=True):
    """The collateral of a kind of platform. Nothing is trusted before ``Verifier.verify``."""

    pck_crl_issuer_chain: str
    root_ca_crl: bytes  # DER
    pck_crl: bytes  # DER
    tcb_info_issuer_chain: str
    tcb_info: str
    tcb_info_signature: bytes  # r, s: 32 bytes each, big-endian
    qe_identity_issuer_chain: str
    qe_identity: str
    qe_identity_signature: bytes


class _Bundle(msgspec.Struct):
    pck_crl_issuer_chain: str
    root_ca_crl: str
    pck_crl: str
    tcb_info_issuer_chain: str
    tcb_info: str
    tcb_info_signature: str
    qe_identity_issuer_chain: str
    qe_identity: str
    qe_identity_signature: str


_decoder = msgspec.json.Decoder(_Bundle)


def read_collateral(data: bytes) -> Collateral:
    """Return the bundle in ``data``, a JSON text. Raises ``CollateralRefusedError``."""
    if len(data) > MAX_COLLATERAL:
        raise CollateralRefusedError(
            f"the collateral bundle has more than {MAX_COLLATERAL} bytes", hint=_HINT
        )
    try:
        bundle = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise CollateralRefusedError(
            "the collateral bundle is not a JSON object with the expected fields", hint=_HINT
        ) from None
    return Collateral(
        pck_crl_issuer_chain=bundle.pck_crl_issuer_chain,
        root_ca_crl=_unhex("root_ca_crl", bundle.root_ca_crl),
        pck_crl=_unhex("pck_crl", bundle.pck_crl),
        tcb_info_issuer_chain=bundle.tcb_info_issuer_chain,
        tcb_info=bundle.tcb_info,
        tcb_info_signature=_signature("tcb_info_signature", bundle.tcb_info_signature),
        qe_identity_issuer_chain=bundle.qe_identity_issuer_chain,
        qe_identity=bundle.qe_identity,
        qe_identity_signature=_signature("qe_identity_signature", bundle.qe_identity_signature),
    )


def write_collateral(collateral: Collateral, **more: float) -> bytes:
    """Return the bundle as JSON, for ``read_collateral``. Equal collateral gives equal bytes.

    ``more``: additional fields, which ``read_collateral`` ignores.
    """
    fields = msgspec.structs.asdict(collateral)
    texts = {name: v.hex() if isinstance(v, bytes) else v for name, v in fields.items()}
    return msgspec.json.format(msgspec.json.encode(texts | more), indent=2) + b"\n"


def _unhex(name: str, text: str) -> bytes:
    try:
        return binascii.unhexlify(text)
    except ValueError:
        raise CollateralRefusedError(
            f"the collateral bundle: {name} is not a hex string", hint=_HINT
        ) from None


def _signature(name: str, text: str) -> bytes:
    value = _unhex(name, text)
    if len(value) != _SIGNATURE:
        raise CollateralRefusedError(
            f"the collateral bundle: {name} has {len(value)} bytes, must have {_SIGNATURE}",
            hint=_HINT,
        )
    return value
