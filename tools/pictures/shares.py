"""The shares of the data key: any two of three holders restore a lost state."""

from pictures.canvas import Canvas

__all__ = ["shares"]

Point = tuple[float, float]

_MIDDLE = 224.0
_HOLDERS = (("Ann", 70.0, True), ("Ben", 184.0, True), ("Cleo", 298.0, False))


def shares() -> Canvas:
    """Draw two of three shares."""
    canvas = Canvas(
        936,
        470,
        "Shares of the data key: two of three",
        "When a manifest is set, the data key is split into three shares, each encrypted to the key"
        " of one holder. When the machine is lost, Ann and Ben upload their shares. Two shares are"
        " enough to restore the key. The key opens the journal. Cleo is not needed.",
    )
    canvas.text(126, 38, "When a manifest is set", "name", anchor="middle")
    canvas.text(790, 38, "When the machine is lost", "name", anchor="middle")
    canvas.box((26, 170, 168, 108), "data key", "split: any 2 of 3", kind="violet", icon="key")
    for number, (name, y, needed) in enumerate(_HOLDERS):
        _share(canvas, f"share {number + 1}, encrypted to {name}", y, needed=needed)
    canvas.box((742, 170, 168, 108), "data key", "opens the journal", kind="violet", icon="key")
    canvas.arrow([(826, 282), (826, 326)], kind="violet")
    canvas.box((742, 330, 168, 96), "state is back", "under its old root", kind="blue", icon="disk")
    canvas.text(
        318,
        442,
        "One share says nothing about the key. Nobody but its holder can open a share.",
        "note",
        anchor="middle",
    )
    return canvas


def _share(canvas: Canvas, name: str, y: float, *, needed: bool) -> None:
    """Draw a share and the arrow to its holder; a ``needed`` share also has an arrow back."""
    kind = "green" if needed else "plain"
    canvas.arrow(_way((198, _MIDDLE), 248, (296, y + 40)), kind="violet")
    canvas.box((300, y - 8, 336, 96), "", kind=kind)
    canvas.icon("share", 322, y + 18, "violet", 1.7)
    canvas.icon("lock", 372, y + 20, kind, 1.5)
    canvas.text(426, y + 36, name, "name")
    words = "decrypts, signs, submits it" if needed else "not needed this time"
    canvas.text(426, y + 58, words, "what")
    if needed:
        canvas.arrow(_way((640, y + 40), 690, (738, _MIDDLE)), kind="green")


def _way(start: Point, bend: float, end: Point) -> list[Point]:
    """Return the points of an arrow, with a change of height at ``bend``."""
    if start[1] == end[1]:
        return [start, end]
    return [start, (bend, start[1]), (bend, end[1]), end]
