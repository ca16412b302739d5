"""Step: kill the coordinator while it stores uploads, and check all acknowledged uploads."""

from collections.abc import Sequence

from examples.demo.calls import STATUS
from examples.demo.pin import verify
from examples.demo.remembered import Remembered, compare, remember, user
from examples.demo.shell import typed
from examples.demo.stage import Stage
from examples.demo.stream import UploadStream
from keyhouse.client import TrustedCoordinator

__all__ = ["crash_it"]

_ENOUGH = 150  # acknowledged uploads of each stream before the kill
_STREAMED = ("apiToken", "partnerKey")


def crash_it(stage: Stage, trusted: TrustedCoordinator) -> None:
    """Kill the process during two streams of uploads, start it again, and compare the state."""
    stage.screen.step(
        "Kill it in the middle of its work",
        "Two clients upload as bob without a pause, each client the values of one secret. Then"
        " SIGKILL ends the process at once, without a warning and without a clean end.",
    )
    before = stage.call(STATUS)
    remembered = remember(stage, trusted)
    streams = [UploadStream(trusted, user(stage, "bob"), name, _value) for name in _STREAMED]
    counts = _killed_meanwhile(stage, streams)
    stage.screen.say()
    stage.screen.say("Start the coordinator again, on the same state directory:")
    stage.screen.command(typed(stage.coordinator.words) + " &")
    seconds = stage.coordinator.start()
    stage.screen.holds(
        stage.coordinator.pid > 0, f"the coordinator serves again after {seconds:.2f} s"
    )
    after = stage.call(STATUS)
    again = verify(stage.address, stage.shell.folder / "state/simulation")
    compare(stage, remembered, remember(stage, again))
    _compare_uploads(stage, streams, counts, remembered, remember(stage, again))
    (epoch, old, _), (same, new, _) = before.state.split("."), after.state.split(".")
    stage.screen.holds(
        same == epoch and int(new) > int(old),
        f"Keyhouse-State continues from record {old} to {new}: a client with this memory notices"
        " an older state on the disk",
    )


def _killed_meanwhile(stage: Stage, streams: Sequence[UploadStream]) -> list[int]:
    """Kill the process while ``streams`` run; return the acknowledged uploads of each stream."""
    for stream in streams:
        stream.start()
    for stream in streams:
        stream.until(_ENOUGH)
    stage.screen.command(f"kill -9 {stage.coordinator.pid}")
    stage.coordinator.kill()
    counts = [stream.broken_off() for stream in streams]
    stage.screen.holds(
        min(counts) >= _ENOUGH,
        f"killed during the uploads; {sum(counts)} uploads were acknowledged before",
    )
    return counts


def _compare_uploads(
    stage: Stage,
    streams: Sequence[UploadStream],
    counts: Sequence[int],
    old: Remembered,
    new: Remembered,
) -> None:
    for stream, count in zip(streams, counts, strict=True):
        found = new.uploaded[stream.secret].private
        stage.screen.holds(
            found is not None and stream.may_be_stored(found.reveal(), count),
            f"{stream.secret}: the value of the last acknowledged upload ({count} in total), or of"
            " the next upload",
        )
    further = len(new.log) - len(old.log)
    stage.screen.holds(
        new.log[: len(old.log)] == old.log and sum(counts) <= further <= sum(counts) + len(streams),
        f"the same log, followed by every acknowledged upload: {further} new lines",
    )


def _value(number: int) -> bytes:
    return b"upload %09d" % number  # 16 bytes, because partnerKey has 128 bits
