"""The statements of an unverified quote, for people."""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from keyhouse.attestation import AmdCollateral, QuoteForm, QuoteRefusedError, Tee
from keyhouse.attestation.kinds.snp.form import SNP_REPORT, read_table
from keyhouse.attestation.kinds.snp.report import SnpMeasurements, read_snp_report
from keyhouse.attestation.kinds.snp.verify import find_endorsement
from keyhouse.attestation.kinds.table import read_report
from keyhouse.attestation.quote.report import VmMeasurements
from keyhouse.wire.kinds.snp import PRODUCTS


def claimed_snp(form: QuoteForm, collateral: AmdCollateral | None = None) -> SnpMeasurements:
    """Return the statements of the SEV-SNP report in ``form``, without verification.

    ``form`` is the parsed quote. A report of version 2 does not name the processor's product line.
    For such a report, the product is taken from the certificate of the key that signed the report.
    This certificate is in the quote or in ``collateral``. Without the certificate, or for an
    unknown product, the field ``product`` is "".
    """
    claimed = read_snp_report(form.raw[:SNP_REPORT]).measured
    if claimed.product:
        return claimed
    try:
        kept = collateral or AmdCollateral()
        named, _, _ = find_endorsement(claimed, read_table(form.chain), kept).product.partition("-")
    except QuoteRefusedError:
        return claimed
    return msgspec.structs.replace(claimed, product=named if named in PRODUCTS else "")


_CLAIMS: Final[Mapping[Tee, Callable[[QuoteForm, AmdCollateral | None], VmMeasurements]]] = {
    Tee.SNP: claimed_snp,
}


def claims_of(form: QuoteForm, collateral: AmdCollateral | None = None) -> VmMeasurements | None:
    """Return the statements about a VM in the parsed quote ``form``, without verification.

    The result is None for the quote of an enclave. ``collateral``: AMD's certificates outside of
    the quote, or None.
    """
    if form.tee in _CLAIMS:
        return _CLAIMS[form.tee](form, collateral)
    return read_report(form).measurements
