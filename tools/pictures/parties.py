"""A change of a manifest by several parties, who agree to the same plan digest."""

from pictures.canvas import Canvas

__all__ = ["parties"]

_LANES = (("Alice", 78.0), ("Bob", 188.0), ("Coordinator", 320.0))


def parties() -> Canvas:
    """Draw an update by two of three users."""
    canvas = Canvas(
        936,
        470,
        "An update by two of three users",
        "Alice requests the plan and proposes a manifest. Bob fetches the pending manifest,"
        " receives a plan with the same digest and acknowledges it. Then the new manifest is in"
        " force. If the effects have changed meanwhile, the digest differs, and the coordinator"
        " refuses Bob's acknowledgement.",
    )
    for name, y in _LANES:
        kind = "blue" if name == "Coordinator" else "plain"
        icon = "server" if name == "Coordinator" else "person"
        canvas.line([(142, y + 36), (922, y + 36)], kind, "lane")
        canvas.box((16, y - 2, 122, 76), name, kind=kind, icon=icon)
    _propose(canvas)
    _agree(canvas)
    _refused(canvas)
    return canvas


def _propose(canvas: Canvas) -> None:
    canvas.text(232, 40, "1. Propose", "name", anchor="middle")
    canvas.box((160, 84, 148, 60), "new.json", "plan 9f2c…", icon=None)
    canvas.arrow([(234, 148), (234, 322)], kind="blue")
    canvas.tag(234, 246, "1 of 2 agree", "amber")
    canvas.box((160, 326, 148, 60), "pending", "nothing has changed", kind="amber")


def _agree(canvas: Canvas) -> None:
    canvas.text(480, 40, "2. Compare, then agree", "name", anchor="middle")
    canvas.box((392, 194, 176, 60), "the same bytes", "plan 9f2c…", kind="green")
    canvas.arrow([(312, 356), (350, 356), (350, 224), (388, 224)])
    canvas.text(342, 296, "fetches", "small", anchor="end")
    canvas.arrow([(312, 104), (480, 104), (480, 190)], kind="green")
    canvas.text(490, 166, "Alice's digest", "small", kind="green")
    canvas.arrow([(480, 258), (480, 322)], kind="green")
    canvas.text(488, 296, "--expect-plan 9f2c…", "small", kind="green")
    canvas.box((400, 326, 160, 60), "2 of 2: in force", "new.json", kind="green")


def _refused(canvas: Canvas) -> None:
    canvas.text(772, 40, "If the effects changed meanwhile", "name", anchor="middle")
    canvas.box((650, 326, 120, 60), "a secret is", "uploaded", kind="plain")
    canvas.line([(612, 24), (612, 400)], "plain", "rule")
    canvas.arrow([(774, 356), (800, 356), (800, 258)])
    canvas.box((710, 194, 200, 60), "plan 41d0…", "would drop that secret", kind="amber")
    canvas.arrow([(880, 258), (880, 322)], kind="red")
    canvas.box((812, 326, 110, 60), "refused", "read the plan", kind="red")
    canvas.text(
        468,
        436,
        "The digest covers what the update would do here: one agreement, one effect.",
        "note",
        anchor="middle",
    )
