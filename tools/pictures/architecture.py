"""The architecture of Keyhouse: two interfaces, one writer, a journal on an untrusted disk."""

from pictures.canvas import Canvas

__all__ = ["architecture"]


def architecture() -> Canvas:
    """Draw the parts of a coordinator, its clients and its host."""
    canvas = Canvas(
        936,
        430,
        "The architecture of Keyhouse",
        "Clients and workloads use the two interfaces inside the enclave. Reads come from the"
        " state in memory. Changes are prepared and decided, become events in the journal on an"
        " untrusted disk, and are published when they are durable. The platform provides quotes"
        " and the sealing key.",
    )
    canvas.area((206, 14, 512, 402), "Enclave: measured, and proven by a quote", "blue")
    canvas.area((738, 14, 184, 402), "Host: not trusted", "amber")
    _outside(canvas)
    _inside(canvas)
    return canvas


def _outside(canvas: Canvas) -> None:
    canvas.box((16, 66, 150, 92), "clients", "SDK, keyhouse, curl", icon="terminal")
    canvas.box((16, 262, 150, 92), "workloads", "keyhouse run", icon="workload")
    canvas.arrow([(170, 112), (218, 112)])
    canvas.arrow([(170, 308), (218, 308)])
    canvas.box((758, 160, 144, 92), "disk", "encrypted, chained", kind="amber", icon="disk")
    canvas.box((758, 300, 144, 92), "processor", "or a simulation", icon="processor")


def _inside(canvas: Canvas) -> None:
    canvas.box((222, 84, 124, 56), "Client API", "HTTPS", kind="blue")
    canvas.box((222, 280, 124, 56), "workload API", "gRPC", kind="blue")
    canvas.box((416, 56, 128, 56), "state", "one frozen value", kind="blue")
    canvas.box((416, 158, 128, 56), "prepare", "keys, certificates", kind="blue")
    canvas.box((416, 250, 128, 56), "decide", "pure", kind="blue")
    canvas.box((584, 178, 118, 56), "journal", "sealed records", kind="blue")
    canvas.box((584, 322, 118, 56), "attestation", "quotes", kind="blue")
    canvas.arrow([(348, 96), (412, 96)], "reads")
    canvas.arrow([(348, 122), (382, 122), (382, 180), (412, 180)])
    canvas.arrow([(348, 300), (382, 300), (382, 196), (412, 196)])
    canvas.text(374, 160, "changes", "small", anchor="end")
    canvas.arrow([(479, 218), (479, 246)])
    canvas.arrow([(548, 278), (630, 278), (630, 238)])
    canvas.text(580, 271, "events", "small", anchor="middle")
    canvas.arrow([(643, 174), (643, 84), (548, 84)])
    canvas.text(652, 76, "when durable", "small", anchor="end")
    canvas.arrow([(706, 206), (754, 206)])
    canvas.arrow([(706, 350), (754, 350)], both=True)
    canvas.arrow([(580, 350), (285, 350), (285, 340)])
    canvas.text(462, 343, "admits only code of the manifest", "small", anchor="middle")
