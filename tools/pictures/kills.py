"""A run of kills: the acknowledged writes before each kill, and the writes after each restart.

``scripts/pictures --kills`` records a run with a real coordinator and four constant writers.
"""

import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from pictures.canvas import Canvas

__all__ = ["kill_plot", "record_kills"]

_RECORDED: Final = Path(__file__).with_name("kills.json")
_KILLS: Final = 30
_WRITERS: Final = 4
_LEFT, _TOP, _HIGH, _WIDE = 76.0, 96.0, 210.0, 836.0


class Round(msgspec.Struct, frozen=True):
    """A kill: acknowledged new writes before the kill, and found new writes after the restart."""

    acknowledged: int
    found: int


def kill_plot() -> Canvas:
    """Draw a bar for the acknowledged writes of each round, and a dot for the found writes."""
    rounds = msgspec.json.decode(_RECORDED.read_bytes(), type=list[Round])
    acknowledged, found = sum(r.acknowledged for r in rounds), sum(r.found for r in rounds)
    lost = sum(max(0, r.acknowledged - r.found) for r in rounds)
    canvas = Canvas(
        936,
        392,
        "Killed under constant writes",
        f"{len(rounds)} kills while {_WRITERS} clients wrote without pause: {acknowledged:,}"
        f" acknowledged writes, {found:,} found writes after the restarts, {lost} lost writes.",
    )
    canvas.text(28, 40, f"{len(rounds)} kills under constant writes: {lost} writes lost", "name")
    canvas.bar((28, 56, 12, 12), "blue")
    canvas.text(46, 67, f"acknowledged before the kill: {acknowledged:,}", "what")
    canvas.dot(330, 62, "green", 4)
    canvas.text(342, 67, f"found after the restart: {found:,} (some were not answered yet)", "what")
    _bars(canvas, rounds)
    canvas.text(
        _LEFT, 368, f"kills 1 to {len(rounds)}; a dot below its bar would be a loss", "what"
    )
    return canvas


def _bars(canvas: Canvas, rounds: list[Round]) -> None:
    most = max(max(r.acknowledged, r.found) for r in rounds)
    step = 10 ** (len(str(most)) - 1)
    step = step if most / step >= 3 else step // 2 or 1  # three lines at least
    for value in range(0, most + 1, step):
        y = _TOP + _HIGH * (1 - value / most)
        canvas.line([(_LEFT, y), (_LEFT + _WIDE, y)], "plain", "lane")
        canvas.text(_LEFT - 10, y + 4, f"{value:,}", "small", anchor="end")
    wide = _WIDE / len(rounds)
    for number, each in enumerate(rounds):
        x = _LEFT + number * wide
        high = _HIGH * each.acknowledged / most
        canvas.bar((x + wide * 0.18, _TOP + _HIGH - high, wide * 0.64, high), "blue")
        canvas.dot(x + wide / 2, _TOP + _HIGH * (1 - each.found / most), "green", 3.2)


def record_kills() -> None:
    """Kill a coordinator repeatedly, and record the found writes after each restart."""
    sys.path.append(str(Path(__file__).parents[2] / "tests"))
    from support.process.kills import Ledger, Writer
    from support.process.server import PATIENCE, Server
    from support.samples.deployment import manifest, user

    ledger = Ledger(_WRITERS)
    rounds: list[Round] = []
    with tempfile.TemporaryDirectory(prefix="keyhouse-kills-") as folder:
        server = Server(Path(folder) / "data")
        with server, server.client() as client:
            client.set_manifest(manifest(_WRITERS))
            server.kill()
        server.start()
        for number in range(_KILLS):
            known = sum(ledger.acknowledged)
            writers = [
                Writer(server.client(user("writer")), f"key{n}", ledger.acknowledged[n] + 1)
                for n in range(_WRITERS)
            ]
            for writer in writers:
                writer.start()
            writers[0].answered.wait(PATIENCE)
            writers[0].join(0.1 + 0.4 * (number % 7) / 7)
            server.kill()
            for n, writer in enumerate(writers):
                writer.join()
                writer.client.close()
                ledger.acknowledged[n], ledger.attempted[n] = writer.acknowledged, writer.attempted
            acknowledged = sum(ledger.acknowledged) - known
            server.start()
            with server.client(user("writer")) as client:
                ledger.check(client)
            rounds.append(Round(acknowledged, sum(ledger.acknowledged) - known))
        server.kill()
    _RECORDED.write_bytes(msgspec.json.format(msgspec.json.encode(rounds), indent=0) + b"\n")
