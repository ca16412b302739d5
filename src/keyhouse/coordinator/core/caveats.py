"""What a manifest in force promises less than it seems to: said in status, log and answers."""

from collections.abc import Iterator

from keyhouse.manifest import FeatureGate, Manifest

__all__ = ["caveats"]


def caveats(manifest: Manifest) -> Iterator[str]:
    """Yield what people who rely on ``manifest`` should know, in words."""
    if manifest.infrastructures:
        yield "nothing enforces Infrastructures"
    limits = any(marble.max_activations for marble in manifest.marbles.values())
    counters = FeatureGate.MONOTONIC_COUNTER in manifest.config.feature_gates
    if limits or counters:
        what = " and ".join(
            name
            for name, used in (("activation limits", limits), ("monotonic counters", counters))
            if used
        )
        yield (
            f"a host that restores an old disk rolls {what} back:"
            " only clients that remember where the journal stood notice"
        )
