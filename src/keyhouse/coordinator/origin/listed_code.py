"""Find the code of a quote in ``Config.Replicas`` of a manifest."""

from msgspec.structs import replace

from keyhouse.attestation import Verdict
from keyhouse.attestation.quote.report import tee_of
from keyhouse.manifest import Package, Replicas


def lists_code(replicas: Replicas, verdict: Verdict) -> bool:
    """Return whether ``replicas`` list the code of ``verdict``."""
    from keyhouse.attestation.appraisal import mismatches  # no start has a verdict

    statuses = replicas.accepted_tcb_statuses or ("UpToDate",)
    return any(not mismatches(verdict, _with_statuses(each, statuses)) for each in replicas.code)


def _with_statuses(package: Package, statuses: tuple[str, ...]) -> Package:
    accepted = statuses if tee_of(package.vm).states_tcb else ()
    return replace(package, accepted_tcb_statuses=accepted, accepted_advisories=())
