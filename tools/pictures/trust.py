"""The chain of trust from a quote to mutual TLS, with the check of each step."""

from pictures.canvas import Canvas

__all__ = ["trust_chain"]

_W, _H, _GAP, _LEFT, _TOP = 190.0, 118.0, 38.0, 28.0, 62.0
_CARDS = (
    ("processor", "Processor", ("measures the code", "that runs isolated"), "plain"),
    ("quote", "Quote", ("UniqueID (MRENCLAVE)", "and a hash of the root"), "blue"),
    ("certificate", "Root certificate", ("its key was made inside", "and never leaves"), "violet"),
    ("manifest", "Manifest", ("what may run,", "who may do what"), "blue"),
)
_VERBS = ("signs", "binds", "signs")
_CHECKS = (
    "chain to the vendor",
    "UniqueID as pinned",
    "exact bytes, always",
    "fingerprint reviewed",
)


def trust_chain() -> Canvas:
    """Draw the chain of trust."""
    canvas = Canvas(
        936,
        468,
        "The chain of trust",
        "The processor signs a quote. The quote binds the root certificate. The root key signs the"
        " manifest. The manifest admits workloads. Workloads receive certificates under the root,"
        " and communicate over mutual TLS. Below each link is the check by a client.",
    )
    canvas.area((14, 14, 908, 218), "The chain of trust", "plain")
    for number, (icon, name, lines, kind) in enumerate(_CARDS):
        x = _LEFT + number * (_W + _GAP)
        canvas.box((x, _TOP, _W, _H), name, *lines, kind=kind, icon=icon)
        canvas.tag(x + _W / 2, _TOP + _H + 28, f"✓ {_CHECKS[number]}", "green")
        if number:
            canvas.arrow([(x - _GAP + 3, _TOP + 60), (x - 3, _TOP + 60)])
            canvas.text(x - _GAP / 2, _TOP + 50, _VERBS[number - 1], "small", anchor="middle")
    _workloads(canvas)
    return canvas


def _workloads(canvas: Canvas) -> None:
    canvas.area((232, 292, 690, 162), "", "plain")
    y = 322.0
    canvas.box((262, y, 180, 102), "orders", "certificate, secrets,", "parameters", icon="workload")
    canvas.box((712, y, 180, 102), "stock", "certificate, secrets,", "parameters", icon="workload")
    canvas.arrow([(446, y + 51), (708, y + 51)], kind="green", both=True)
    canvas.box((502, y + 12, 150, 78), "mutual TLS", "", kind="green", icon="lock")
    canvas.text(577, y + 78, "each checks the other", "small", anchor="middle")
    canvas.arrow([(579, 236), (579, 288)], kind="violet")
    canvas.text(567, 267, "issues certificates", "small", kind="violet", anchor="end")
    canvas.arrow([(807, 236), (807, 288)], kind="blue")
    canvas.text(795, 267, "admits workloads by their quotes", "small", kind="blue", anchor="end")
    canvas.text(28, 326, "✓ is a check by a client:", "name")
    for n, line in enumerate(
        ("once, over fresh random", "bytes, before it sends", "anything at all.")
    ):
        canvas.text(28, 352 + 20 * n, line, "what")
