"""What a report of SEV-SNP says of its confidential VM, and which VMs are never trusted."""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import astuple

from keyhouse.attestation.errors import QuoteProblem, QuoteRefusedError
from keyhouse.base.readable import Readable
from keyhouse.wire.exact_fields import Difference, differences
from keyhouse.wire.snp import SIZES, SnpIdentity, SnpTcb, below_floor, policy_fault

_HEX: Final = ("measurement", "host_data", "id_key_digest", "author_key_digest",
               "family_id", "image_id", "policy")  # fmt: skip


class SnpMeasurements(Readable, frozen=True, kw_only=True):
    """Who a confidential VM is, and what its platform is. Numbers are little-endian in bytes.

    ``product`` is "" while a report of version 2 is not verified: its certificates say it.
    """

    measurement: bytes  # 48 bytes: its first memory
    host_data: bytes  # 32 bytes, set by the host at its start
    id_key_digest: bytes  # 48 bytes; zeros without an ID block, as the next three
    author_key_digest: bytes  # 48 bytes
    family_id: bytes  # 16 bytes
    image_id: bytes  # 16 bytes
    guest_svn: int
    policy: bytes  # 8 bytes
    vmpl: int  # 0 to 3; 0xFFFFFFFF: the host asked for the report
    signing_key: str  # VCEK or VLEK
    product: str  # Milan, Genoa or Turin
    chip_id: bytes  # 64 bytes; zeros if the platform hides it
    reported_tcb: SnpTcb  # what the key that signs was derived from
    committed_tcb: SnpTcb  # what the platform cannot go back behind
    current_tcb: SnpTcb
    launch_tcb: SnpTcb  # when the VM was started


def snp_identity_of(found: SnpMeasurements) -> SnpIdentity:
    """Return the identity that this VM alone has, with its platform's versions as the least."""
    values = {name: getattr(found, name).hex() for name in _HEX}
    return SnpIdentity(
        **values,
        product=found.product,
        minimum_tcb=_lowest(found),
        vmpl=found.vmpl,
        signing_key=found.signing_key,
    )


def snp_differences(found: SnpMeasurements, wanted: SnpIdentity) -> Iterator[Difference]:
    """Yield each field in which this VM or its platform is not as ``wanted``, in order.

    ``MinimumTCB`` holds for the versions reported, committed, current, and at the VM's start.
    """
    has = snp_identity_of(found)
    yield from differences(has, wanted, SIZES)
    if found.product != wanted.product:
        yield Difference("Product", found.product or "unknown", wanted.product)
    if wanted.minimum_tcb is None:  # the check of manifests refuses such a package
        yield Difference("MinimumTCB", str(found.reported_tcb), "named")
    else:
        for which, versions in _tcbs(found).items():
            if lower := below_floor(versions, wanted.minimum_tcb):
                problem = f"lower in {lower} ({which}: {versions})"
                yield Difference("MinimumTCB", problem, str(wanted.minimum_tcb))
                break
    if found.vmpl != wanted.vmpl:
        yield Difference("VMPL", str(found.vmpl), str(wanted.vmpl))
    if found.signing_key != wanted.signing_key:
        yield Difference("SigningKey", found.signing_key, wanted.signing_key)


def require_sound_snp(found: SnpMeasurements) -> None:
    """Raise ``QuoteRefusedError`` for a VM that no identity can make trusted."""
    fault = policy_fault(found.policy)
    if fault:
        raise QuoteRefusedError(
            QuoteProblem.GUEST_POLICY,
            f"the quote does not verify: no such confidential VM is trusted: {fault}",
            hint="start it with a guest policy without debug and migration agents",
        )


def _tcbs(found: SnpMeasurements) -> dict[str, SnpTcb]:
    return {
        "reported": found.reported_tcb,
        "committed": found.committed_tcb,
        "current": found.current_tcb,
        "at the start of the VM": found.launch_tcb,
    }


def _lowest(found: SnpMeasurements) -> SnpTcb:
    """Return of each version the lowest that the report says."""
    columns = zip(*map(astuple, _tcbs(found).values()), strict=True)
    return SnpTcb(*(None if None in column else min(column) for column in columns))
