"""What a host can exchange while a recovery is under way is refused before any key is used."""

import msgspec
import pytest
from support.samples.crafted import EPOCH, made
from support.samples.recovery import holders, recoverable

from keyhouse.authority import recovery_index
from keyhouse.coordinator import RecoveryRefused
from keyhouse.coordinator.engine.recovery_check import OpenedWith, check_recovered
from keyhouse.journal import index_mac_key


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"index_on_disk": b"another"}, "was changed during the recovery"),
        ({"store_id": bytes(16)}, "is of another journal"),
        ({"epoch": EPOCH + 1}, "of another epoch"),
    ],
    ids=["exchanged", "store", "epoch"],
)
def test_an_index_of_something_else_is_refused(change: dict[str, object], problem: str) -> None:
    crafted = made(recoverable(holders(1)))
    mac_key = index_mac_key(crafted.dek, crafted.store_id, EPOCH)
    index = recovery_index(crafted.index, keys=crafted.signer, mac_key=mac_key)
    opened = OpenedWith(
        index=index,
        index_on_disk=index,
        store_id=crafted.store_id,
        epoch=EPOCH,
        mac_key=mac_key,
        submitted=(),
        platform=crafted.running.platform,
    )
    with pytest.raises(RecoveryRefused, match=problem):
        check_recovered(crafted.running, msgspec.structs.replace(opened, **change))
