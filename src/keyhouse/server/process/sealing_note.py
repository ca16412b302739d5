"""What an operator has to know at the start about the key that seals the state."""

from keyhouse.coordinator import AcceptingManifest, Running, State, policy_of
from keyhouse.manifest import SealMode

__all__ = ["sealing_note"]

_GRAMINE = (
    "the sealing key belongs to the present security versions of processor and enclave: without"
    " recovery keys in the manifest, an update of microcode or version loses the state"
)


def sealing_note(platform: str, state: State) -> str:
    """Return the warning for ``state`` on the platform of that kind; empty if there is none.

    Under Gramine it is there unless the manifest names recovery keys or keeps nothing on disk.
    """
    if platform != "gramine":
        return ""
    match state:
        case AcceptingManifest():
            return _GRAMINE
        case Running(recovery=recovery, manifest=manifest) if not recovery.holders:
            kept = policy_of(manifest).seal_mode is not SealMode.DISABLED
            return _GRAMINE if kept else ""
        case _:
            return ""
