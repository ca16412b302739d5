"""All targets by name, in the order in which a campaign runs them."""

from typing import Final

from fuzz.attestation import CollateralTarget, QuoteTarget
from fuzz.campaign import Attack
from fuzz.frames import FrameTarget
from fuzz.http_heads import HttpTarget
from fuzz.journals import JournalTarget
from fuzz.json_texts import JsonTarget
from fuzz.kills import KillTarget
from fuzz.requests import RequestTarget
from fuzz.shares import ShareTarget
from fuzz.target import Target
from fuzz.templates import TemplateTarget
from fuzz.yaml_texts import YamlTarget

__all__ = ["TARGETS", "attack_on"]

_KINDS: Final[tuple[type[Target], ...]] = (
    *(QuoteTarget, CollateralTarget, HttpTarget, JsonTarget, YamlTarget, TemplateTarget),
    *(RequestTarget, ShareTarget, FrameTarget, JournalTarget, KillTarget),
)

TARGETS: Final = {kind.name: kind for kind in _KINDS}


def attack_on(kind: type[Target]) -> Attack:
    """Return how to run targets of ``kind``."""
    return Attack(kind.name, kind, kind.patience)
