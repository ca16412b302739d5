"""All keys: the origin and the uses of each key."""

from pictures.canvas import Canvas

__all__ = ["keys"]


def keys() -> Canvas:
    """Draw all keys of a deployment."""
    canvas = Canvas(
        936,
        566,
        "Keys and their uses",
        "The platform's sealing key, or enough recovery shares, restore the data key. The data key"
        " encrypts the journal. The quote binds the root certificate; the root key signs the"
        " manifest and"
        " the intermediate certificate. The intermediate key signs certificates of workloads. The"
        " root secret derives keys of single workloads.",
    )
    _state(canvas)
    _identity(canvas)
    _derived(canvas)
    return canvas


def _state(canvas: Canvas) -> None:
    canvas.area((14, 14, 908, 188), "The state on the disk: encryption", "violet")
    canvas.box((36, 52, 170, 54), "sealing key", "from the processor", kind="blue")
    canvas.box((36, 130, 170, 54), "recovery shares", "t of n holders", kind="green")
    canvas.box((330, 74, 180, 88), "data key (DEK)", "32 random bytes", kind="violet", icon="key")
    canvas.arrow([(210, 79), (270, 79), (270, 104), (326, 104)], kind="blue")
    canvas.text(268, 70, "opens sealed_key", "small", anchor="middle")
    canvas.arrow([(210, 157), (270, 157), (270, 134), (326, 134)], kind="green")
    canvas.text(284, 176, "restore", "small", anchor="middle")
    for n, (name, what) in enumerate(
        (("record keys", "journal.db: AES-256-GCM-SIV"), ("MAC key", "recovery_index"))
    ):
        y = 52.0 + 78 * n
        canvas.box((660, y, 240, 54), name, what)
        canvas.arrow([(514, 118), (584, 118), (584, y + 27), (656, y + 27)], kind="violet")
    canvas.text(598, 112, "derives", "small")


def _identity(canvas: Canvas) -> None:
    canvas.area((14, 218, 908, 222), "The identity: signatures", "blue")
    canvas.box((36, 276, 170, 88), "quote", "from the processor", kind="blue", icon="quote")
    canvas.box((330, 276, 180, 88), "root key", "pinned by clients", kind="violet", icon="key")
    canvas.arrow([(210, 320), (326, 320)], "binds", kind="blue")
    canvas.box((660, 246, 240, 84), "manifest", "sign-quote, recovery index,", "recovery key")
    canvas.arrow([(514, 306), (584, 306), (584, 288), (656, 288)], kind="violet")
    canvas.text(598, 280, "signs", "small")
    canvas.box((330, 386, 180, 40), "intermediate key", kind="violet")
    canvas.arrow([(420, 368), (420, 382)], kind="violet")
    canvas.text(432, 380, "signs its certificate", "small")
    canvas.box((660, 352, 240, 74), "workload certificates", "generated certificates")
    canvas.arrow([(514, 406), (656, 406)], "signs", kind="violet")


def _derived(canvas: Canvas) -> None:
    canvas.area((14, 456, 908, 96), "Keys of single workloads", "plain")
    canvas.box((330, 484, 180, 54), "root secret", "random bytes", kind="violet")
    canvas.arrow([(514, 511), (656, 511)], "derives, by UUID", kind="violet")
    canvas.box((660, 484, 240, 54), "symmetric keys", "not shared, not stored")
    canvas.text(36, 506, "The same UUID gets", "what")
    canvas.text(36, 525, "the same key again.", "what")
