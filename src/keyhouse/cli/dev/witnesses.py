"""The witnesses of a development coordinator: three processes, a policy, and the key of the log.

All three processes run under this user, so they protect nothing. With them, a person can try the
protection against rollbacks: stop a witness, or start an old copy of the state.
"""

import queue
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from keyhouse.base.durable_files import replace_file
from keyhouse.base.errors import UnavailableError
from keyhouse.cli.dev.coordinator import process_below
from keyhouse.cli.dev.folder import Folder, FolderUnusableError

WITNESSES: Final = ("A", "B", "C")
"""Two of three: one may fail."""

_QUORUM: Final = f"group Q 2 {' '.join(WITNESSES)}\nquorum Q\n"
_PATIENCE: Final = 30.0  # seconds for the start of a witness, chosen: a start takes about one


def require_possible(folder: Folder) -> None:
    """Raise ``FolderUnusableError`` if the folder has a state that began without witnesses."""
    if folder.state.exists() and not folder.witnesses.exists():
        raise FolderUnusableError(
            f"the state in {folder.path} began without --witnesses",
            hint=f"pass another --folder, or --ephemeral; or remove the state: rm -r {folder.path}",
        )


@contextmanager
def witnesses(folder: Folder) -> Iterator[str]:
    """Run the witnesses with the files of ``folder`` during the block; yield the policy as text.

    The function also writes the policy into the folder's file ``witnesses.policy``.

    Raises ``UnavailableError`` for a witness that does not serve.
    """
    folder.witnesses.mkdir(mode=0o700, exist_ok=True)
    with ExitStack() as ends:
        lines = [_started(folder, name, ends) for name in WITNESSES]
        policy = "".join(lines) + _QUORUM
        replace_file(folder.policy, policy.encode())
        yield policy


def _started(folder: Folder, name: str, ends: ExitStack) -> str:
    """Start the witness ``name``, and return the line for this witness in a policy.

    ``ends`` stops the witness when the caller closes this stack. ``folder`` has the key of the
    witness. Raises ``UnavailableError`` if the witness does not serve.
    """
    output: queue.Queue[str] = queue.Queue()
    words = [sys.executable, "-I", "-B", "-m", "keyhouse_simulation.witness"]
    words += [str(folder.witnesses), name]
    process = ends.enter_context(process_below(words, lambda line: output.put(line.decode())))
    try:
        line = output.get(timeout=_PATIENCE)
    except queue.Empty:
        line = ""
    if not line.startswith("witness "):
        raise UnavailableError(
            line.removeprefix("error: ").rstrip() or f"the witness {name} does not serve",
            hint="end the program that uses the port of this witness:"
            f" {folder.witnesses}/{name}.json states the port",
        )
    replace_file(folder.witnesses / f"{name}.pid", b"%d\n" % process.pid, durable=False)
    return line


def trust_log(folder: Folder, verifier: str) -> None:
    """Let the witnesses of ``folder`` cosign the log with the verifier key ``verifier``."""
    replace_file(folder.witnesses / "logs", f"{verifier}\n".encode())
