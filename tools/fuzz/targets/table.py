"""All targets by name, in the order of a campaign."""

from typing import Final

from fuzz.campaign import Attack
from fuzz.target import Target
from fuzz.targets.attestation import CollateralTarget, QuoteTarget
from fuzz.targets.evidence_files import EvidenceTarget
from fuzz.targets.frames import FrameTarget
from fuzz.targets.http_heads import HttpTarget
from fuzz.targets.journals import JournalTarget
from fuzz.targets.json_texts import JsonTarget
from fuzz.targets.kills import KillTarget
from fuzz.targets.log_texts import LogTarget
from fuzz.targets.notes import NoteTarget
from fuzz.targets.replicas import FlushTarget, ReplicaTarget
from fuzz.targets.requests import RequestTarget
from fuzz.targets.shares import ShareTarget
from fuzz.targets.snp_reports import SnpTarget
from fuzz.targets.templates import TemplateTarget
from fuzz.targets.yaml_texts import YamlTarget

__all__ = ["TARGETS", "attack_on"]

_KINDS: Final[tuple[type[Target], ...]] = (
    *(QuoteTarget, CollateralTarget, SnpTarget, HttpTarget, JsonTarget, YamlTarget),
    *(
        TemplateTarget,
        RequestTarget,
        ShareTarget,
        NoteTarget,
        LogTarget,
        EvidenceTarget,
        FrameTarget,
        JournalTarget,
        ReplicaTarget,
        FlushTarget,
        KillTarget,
    ),
)

TARGETS: Final = {kind.name: kind for kind in _KINDS}


def attack_on(kind: type[Target]) -> Attack:
    """Return the attack with targets of ``kind``."""
    return Attack(kind.name, kind, kind.patience)
