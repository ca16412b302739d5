"""The quote of a workload: what proves to the coordinator which code asks."""

from keyhouse.attestation import Platform, quote_binding, report_data
from keyhouse.attestation.quote.form import Tee, add_header, read_form

__all__ = ["quote_over"]


def quote_over(certificate: bytes, platform: Platform) -> bytes:
    """Return the platform's quote over ``certificate``, the TLS client certificate (DER).

    SGX quotes have the 16-byte header in front, others come raw. Raises what the platform does.
    Source: wire reference, "Report data".
    """
    raw = platform.quote(report_data(quote_binding(certificate)))
    return add_header(raw) if read_form(raw).tee is Tee.SGX else raw
