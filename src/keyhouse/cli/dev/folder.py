"""The folder of a development coordinator: its state, its user, and files about it.

::

    data/             the coordinator's state directory; data/simulation/ is its machine
    dev.pem dev.key   the user: certificate and private key (0600)
    manifest.yaml     the sample manifest as set; manifest.json: the user's own manifest
    root.pem          the root certificate of the verified coordinator
    memory.json       the states in which commands saw the coordinator
    coordinator.log   the log since the last start, a JSON object on each line
    witnesses/        with --witnesses: keys and checkpoints of the simulated witnesses
    witnesses.policy  with --witnesses: their policy
    .gitignore        excludes all files from commits
"""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from keyhouse.base.durable_files import replace_file
from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import os_reason
from keyhouse.client import ClientIdentity
from keyhouse.client.identity import make_user
from keyhouse.journal.directory.acquire import unused
from keyhouse.journal.store.protocol import StoreLockedError

USER: Final = "dev"

_WRITABLE_BY_OTHERS: Final = 0o022  # mode bits: group and others


class FolderUnusableError(RefusedError):
    """The folder is in use, or cannot be created or used."""

    code = "folder-unusable"


class Folder:
    """The files of `keyhouse dev` below ``path``.

    A relative ``path`` stays relative, because users copy suggested commands with these paths.
    """

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self.state: Final = path / "data"
        self.machine: Final = self.state / "simulation"
        self.attestation: Final = self.machine / "attestation.json"  # the expected identity
        self.simulation_root: Final = self.machine / "root.pem"  # of the simulated vendor
        self.sample: Final = path / "manifest.yaml"
        self.root: Final = path / "root.pem"
        self.certificate: Final = path / f"{USER}.pem"
        self.key: Final = path / f"{USER}.key"
        self.memory: Final = path / "memory.json"
        self.log: Final = path / "coordinator.log"
        self.witnesses: Final = path / "witnesses"
        self.policy: Final = path / "witnesses.policy"


@contextmanager
def open_folder(path: Path | None) -> Iterator[Folder]:
    """Yield the folder at ``path``; create a missing folder. None means a temporary folder.

    Raises ``FolderUnusableError`` if another process uses the state in the folder, if the folder
    cannot be created, or if other users can write to the folder. Such users could replace the
    user's key, or put links to other files into the folder.
    """
    if path is None:
        with tempfile.TemporaryDirectory(prefix="keyhouse-dev-") as name:
            yield Folder(Path(name))
        return
    try:
        _make(path)
        _require_own(path)
    except OSError as error:
        raise FolderUnusableError(
            f"cannot use the folder {path}: {os_reason(error)}", hint="name another --folder"
        ) from None
    folder = Folder(path)
    try:
        with unused(folder.state):
            pass  # only a test: the coordinator locks the state itself
    except StoreLockedError as locked:
        raise FolderUnusableError(
            f"a coordinator already runs in {path}: {locked.message}",
            hint="use that coordinator, or pass another --folder or --ephemeral",
        ) from None
    yield folder


def _make(path: Path) -> None:
    with suppress(FileExistsError):
        path.mkdir(mode=0o700, parents=True)
        (path / ".gitignore").write_text("*\n", encoding="ascii")


def _require_own(path: Path) -> None:
    """Raise ``FolderUnusableError`` unless the user of this process alone can write to ``path``."""
    status = path.lstat()
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISDIR(status.st_mode):
        raise FolderUnusableError(
            f"cannot use the folder {path}: not a directory",
            hint="pass a directory with --folder; a symbolic link is not followed",
        )
    if status.st_uid != os.geteuid():
        raise FolderUnusableError(
            f"{path} belongs to the user {status.st_uid}, but it must belong to {os.geteuid()}",
            hint="pass another --folder, or --ephemeral",
        )
    if mode & _WRITABLE_BY_OTHERS:
        raise FolderUnusableError(
            f"{path} has mode {mode:04o}, so other users can put keys and links into it",
            hint=f"check the files in the folder, then: chmod 700 {path}",
        )


def user_in(folder: Folder) -> ClientIdentity:
    """Return certificate and key of the user ``dev`` in ``folder``; create a missing user."""
    if not folder.certificate.exists():
        user = make_user(USER)
        replace_file(folder.key, user.key.reveal())
        replace_file(
            folder.certificate, user.certificate
        )  # last: the certificate marks a complete user
    return ClientIdentity(folder.certificate, folder.key)
