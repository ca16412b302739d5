"""Step: kill the coordinator while it is writing, and see that nothing acknowledged is lost."""

from collections.abc import Sequence

from examples.demo.calls import STATUS
from examples.demo.pin import verify
from examples.demo.remembered import Remembered, compare, remember, user
from examples.demo.shell import typed
from examples.demo.stage import Stage
from examples.demo.stream import UploadStream
from keyhouse.client import TrustedCoordinator

__all__ = ["crash_it"]

_ENOUGH = 150  # acknowledged uploads of each stream, before the end
_STREAMED = ("apiToken", "partnerKey")


def crash_it(stage: Stage, trusted: TrustedCoordinator) -> None:
    """Upload in two streams, kill the process meanwhile, start it again, compare."""
    stage.screen.step(
        "Kill it in the middle of its work",
        "Two clients upload as bob, one secret after the other without a pause. Then the process is"
        " killed at once (SIGKILL): no warning, no clean end.",
    )
    before = stage.call(STATUS)
    remembered = remember(stage, trusted)
    streams = [UploadStream(trusted, user(stage, "bob"), name, _value) for name in _STREAMED]
    counts = _killed_meanwhile(stage, streams)
    stage.screen.say()
    stage.screen.say("Started again, on the same state directory:")
    stage.screen.command(typed(stage.coordinator.words) + " &")
    seconds = stage.coordinator.start()
    stage.screen.holds(stage.coordinator.pid > 0, f"it serves again after {seconds:.2f} s")
    after = stage.call(STATUS)
    again = verify(stage.address, stage.shell.folder / "state/simulation")
    compare(stage, remembered, remember(stage, again))
    _compare_uploads(stage, streams, counts, remembered, remember(stage, again))
    (epoch, old, _), (same, new, _) = before.state.split("."), after.state.split(".")
    stage.screen.holds(
        same == epoch and int(new) > int(old),
        f"Keyhouse-State went on, from record {old} to {new}: a client that remembers it notices"
        " when someone puts an older disk back",
    )


def _killed_meanwhile(stage: Stage, streams: Sequence[UploadStream]) -> list[int]:
    """Kill the process while all ``streams`` run; return how much of each was acknowledged."""
    for stream in streams:
        stream.start()
    for stream in streams:
        stream.until(_ENOUGH)
    stage.screen.command(f"kill -9 {stage.coordinator.pid}")
    stage.coordinator.kill()
    counts = [stream.broken_off() for stream in streams]
    stage.screen.holds(
        min(counts) >= _ENOUGH,
        f"killed while it stored; {sum(counts)} uploads had been acknowledged by then",
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
            f"{stream.secret}: the last value that was acknowledged ({count} were), or the one"
            " that was on its way",
        )
    further = len(new.log) - len(old.log)
    stage.screen.holds(
        new.log[: len(old.log)] == old.log and sum(counts) <= further <= sum(counts) + len(streams),
        f"the same log, and behind it every acknowledged upload: {further} new lines",
    )


def _value(number: int) -> bytes:
    return b"upload %09d" % number  # 16 bytes: partnerKey has 128 bits
