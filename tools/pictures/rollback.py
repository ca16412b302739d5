"""A rollback and a fork on a time line, and their detection by clients with a memory."""

from pictures.canvas import Canvas

__all__ = ["rollback"]

_STEP = 78.0


def rollback() -> Canvas:
    """Draw a rollback above and a fork below."""
    canvas = Canvas(
        936,
        560,
        "Rollback and fork",
        "Above: a client has seen place 9 of the journal. The host puts back the copy of place 3,"
        " and the coordinator continues from place 3. The client refuses place 5, because place 5"
        " is lower than place 9. Below: two copies continue separately from place 6. Both reach"
        " place 8 with different chain values. A client that has seen the first chain value"
        " refuses the second.",
    )
    _rollback(canvas)
    _fork(canvas)
    return canvas


def _places(canvas: Canvas, y: float, first: int, last: int, x: float, kind: str) -> None:
    for place in range(first, last + 1):
        at = x + (place - first) * _STEP
        canvas.dot(at, y, kind)
        canvas.text(at, y + 28, f"1.{place}", "mono", anchor="middle")


def _rollback(canvas: Canvas) -> None:
    canvas.area((14, 14, 908, 254), "Rollback: the host puts back an older copy", "plain")
    x, y = 60.0, 106.0
    canvas.line([(x, y), (x + 8 * _STEP, y)], "blue")
    _places(canvas, y, 1, 9, x, "blue")
    canvas.icon("eye", x + 8 * _STEP - 13, y - 48, "green")
    canvas.text(x + 8 * _STEP + 24, y - 26, "a client remembers 1.9", "what")
    copied = x + 2 * _STEP
    canvas.icon("disk", copied - 13, y - 48, "amber")
    canvas.text(copied + 22, y - 26, "the host keeps a copy", "what")
    again = y + 108
    canvas.arrow([(copied, y + 38), (copied, again), (copied + 60, again)], kind="amber")
    canvas.text(copied + 12, again - 26, "and starts it later", "small", kind="amber")
    start = copied + _STEP
    canvas.line([(start, again), (start + _STEP, again)], "amber", "dash")
    _places(canvas, again, 4, 5, start, "amber")
    canvas.arrow([(start + _STEP + 14, again), (start + 2.3 * _STEP, again)], kind="red")
    canvas.box(
        (start + 2.3 * _STEP + 4, again - 34, 400, 68),
        "the client refuses: exit code 4",
        "rollback: is at 1.5, but was at 1.9 before",
        kind="red",
    )


def _fork(canvas: Canvas) -> None:
    canvas.area((14, 284, 908, 262), "Fork: two copies run separately", "plain")
    x, y = 60.0, 414.0
    canvas.line([(x, y), (x + 2 * _STEP, y)], "blue")
    _places(canvas, y, 4, 6, x, "blue")
    split = x + 2 * _STEP
    for up, kind, value in ((True, "blue", "8aaf…"), (False, "amber", "04bc…")):
        branch = y - 62 if up else y + 62
        canvas.arrow(
            [(split + 8, y), (split + 36, y), (split + 36, branch), (split + _STEP - 10, branch)],
            kind=kind,
        )
        canvas.line([(split + _STEP, branch), (split + 2 * _STEP, branch)], kind, "rule")
        _places(canvas, branch, 7, 8, split + _STEP, kind)
        canvas.text(split + 2 * _STEP + 20, branch + 5, f"chain value {value}", "mono")
        whom = "sent to you" if up else "sent to others"
        canvas.text(split + 4 * _STEP + 24, branch + 5, whom, "what")
        edge = y - 36 if up else y + 36
        canvas.arrow([(654, branch), (790, branch), (790, edge)], kind="red")
    canvas.box(
        (684, y - 34, 220, 68),
        "fork: exit code 4",
        "place 8, different chain value",
        kind="red",
    )
