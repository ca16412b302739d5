"""The cost of requests for growing states: the figures of ``tools/benchmarks/recorded.json``.

``scripts/pictures --bench FILE`` reads the output of ``scripts/bench --json FILE``.
"""

from pathlib import Path
from typing import Final

import msgspec

from pictures.canvas import Canvas

__all__ = ["benchmark_plot", "keep_figures"]

_RECORDED: Final = Path(__file__).parents[1] / "benchmarks" / "recorded.json"
_PANELS: Final = (
    ("status", "status"),
    ("read", "read one secret"),
    ("upload-1", "upload, 1 client"),
    ("upload-8", "upload, 8 clients"),
)
_BARS: Final = (("100", "100"), ("1,000", "1,000"), ("10,000", "10,000"), ("written", "old log"))
_TOP, _HIGH, _WIDE = 112.0, 170.0, 216.0


class Cost(msgspec.Struct, frozen=True):
    """Processor time of one request, and its resolution by the kernel, both in microseconds."""

    scenario: str
    server: str
    microseconds: float
    resolution: float


class Recorded(msgspec.Struct, frozen=True, rename="camel"):
    """A part of the output of ``scripts/bench``: the minimum of all rounds for each figure."""

    time: str
    rounds: int
    seconds: float
    earlier_writes: int
    others_share: float
    python: str
    costs: list[Cost]


def benchmark_plot() -> Canvas:
    """Draw four panels: bars for 100, 1,000 and 10,000 secrets, and for a long history."""
    recorded = msgspec.json.decode(_RECORDED.read_bytes(), type=Recorded)
    canvas = Canvas(
        936,
        388,
        "The cost of a request as the state grows",
        "Processor time of the server for each request, in microseconds: "
        + "; ".join(
            f"{title} "
            + ", ".join(f"{each.microseconds:.0f}" for each in recorded.costs if each.scenario == s)
            for s, title in _PANELS
        )
        + ".",
    )
    canvas.text(28, 38, "Processor time of the server for each request", "name")
    canvas.text(
        28, 60, "by the number of secrets, and after a long history; shorter is better", "what"
    )
    for number, (scenario, title) in enumerate(_PANELS):
        costs = {each.server: each for each in recorded.costs if each.scenario == scenario}
        _panel(canvas, 28 + number * (_WIDE + 6), title, costs)
    canvas.text(
        28,
        366,
        f"{recorded.time[:10]}, Python {recorded.python}; the minimum of {recorded.rounds} rounds"
        f" of {recorded.seconds} s. Whiskers: the resolution of the kernel's count.",
        "small",
    )
    return canvas


def keep_figures(measured: Path) -> None:
    """Write the drawn figures of the file ``measured``: the minimum of each processor time."""
    whole = msgspec.json.decode(measured.read_bytes())
    shown = {scenario for scenario, _ in _PANELS}
    costs = []
    for series in whole["series"]:
        rounds = [each["server_cpu"] for each in series["rounds"] if each.get("server_cpu")]
        if series["scenario"] in shown and series["server"] != "bare":
            least = min(filter(_counted, rounds), key=_counted)
            fine = least["resolution_us_per_request"]
            costs.append(Cost(series["scenario"], series["server"], _counted(least), fine))
    recorded = Recorded(
        whole["time"],
        whole["rounds"],
        whole["seconds"],
        whole["earlier_writes"],
        whole["disturbance"]["others_share"],
        whole["surroundings"]["python"],
        costs,
    )
    _RECORDED.write_bytes(msgspec.json.format(msgspec.json.encode(recorded), indent=1) + b"\n")


def _counted(processor: dict[str, float]) -> float:
    return processor["us_per_request"] or 0.0


def _panel(canvas: Canvas, left: float, title: str, costs: dict[str, Cost]) -> None:
    most = max(each.microseconds + each.resolution for each in costs.values())
    canvas.text(left + 4, 96, title, "tag")
    canvas.line([(left, _TOP + _HIGH), (left + _WIDE - 18, _TOP + _HIGH)])
    step = (_WIDE - 22) / len(_BARS)
    for number, (server, label) in enumerate(_BARS):
        cost = costs[server]
        x = left + 4 + number * step
        top = _TOP + _HIGH * (1 - cost.microseconds / most)
        kind = "violet" if server == "written" else "blue"
        canvas.bar((x + 4, top, step - 12, _TOP + _HIGH - top), kind)
        middle, spread = x + step / 2 - 2, _HIGH * cost.resolution / most
        canvas.line([(middle, top - spread), (middle, min(top + spread, _TOP + _HIGH))])
        canvas.text(middle, _TOP + _HIGH + 18, label, "small", anchor="middle")
        canvas.text(
            middle, _TOP + _HIGH + 38, f"{cost.microseconds:.0f} µs", "small", anchor="middle"
        )
