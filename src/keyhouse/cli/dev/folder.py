"""The folder of a development coordinator: its state, its user, and what is written about it.

::

    data/             the state directory of the coordinator; simulation/ in it is its machine
    dev.pem dev.key   the user: certificate and private key (0600)
    manifest.yaml     the sample manifest as it was set; manifest.json: one of the user's own
    root.pem          the root certificate of the coordinator, which was verified
    memory.json       the states that it was seen in
    coordinator.log   what it has logged since its last start, a JSON object on each line
    .gitignore        so that none of it is committed by accident
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

_WRITABLE_BY_OTHERS: Final = 0o022


class FolderUnusableError(RefusedError):
    """The folder is in use, or cannot be made."""

    code = "folder-unusable"


class Folder:
    """Where everything is, below ``path``: as it was typed, for what is typed next."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self.state: Final = path / "data"
        self.machine: Final = self.state / "simulation"
        self.attestation: Final = self.machine / "attestation.json"  # who the coordinator must be
        self.simulation_root: Final = self.machine / "root.pem"  # of the simulated vendor
        self.sample: Final = path / "manifest.yaml"
        self.root: Final = path / "root.pem"
        self.certificate: Final = path / f"{USER}.pem"
        self.key: Final = path / f"{USER}.key"
        self.memory: Final = path / "memory.json"
        self.log: Final = path / "coordinator.log"


@contextmanager
def opened(path: Path | None) -> Iterator[Folder]:
    """Yield the folder at ``path``, which is made if it is missing; None: one that is removed.

    Raises ``FolderUnusableError`` if another process has its state, if it cannot be made, or if
    other users can write to it: they could plant the key of the user, or links to other files.
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
    found = Folder(path)
    try:
        with unused(found.state):
            pass  # only asked: the coordinator takes it
    except StoreLockedError as locked:
        raise FolderUnusableError(
            f"a coordinator runs in {path} already: {locked.message}",
            hint="use that one; or name another place with --folder, or --ephemeral",
        ) from None
    yield found


def _make(path: Path) -> None:
    with suppress(FileExistsError):
        path.mkdir(mode=0o700, parents=True)
        (path / ".gitignore").write_text("*\n", encoding="ascii")


def _require_own(path: Path) -> None:
    """Raise ``FolderUnusableError`` unless this user alone can write to the folder at ``path``."""
    found = path.lstat()
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISDIR(found.st_mode):
        raise FolderUnusableError(
            f"cannot use the folder {path}: it is not a directory",
            hint="name a directory with --folder; a link to one is not followed",
        )
    if found.st_uid != os.geteuid():
        raise FolderUnusableError(
            f"{path} belongs to the user {found.st_uid}, but it must belong to {os.geteuid()}",
            hint="name another place with --folder, or --ephemeral",
        )
    if mode & _WRITABLE_BY_OTHERS:
        raise FolderUnusableError(
            f"{path} has mode {mode:04o}, so other users can put keys and links into it",
            hint=f"see what is in it, then: chmod 700 {path}",
        )


def user_in(folder: Folder) -> ClientIdentity:
    """Return the user ``dev``, made if there is none yet."""
    if not folder.certificate.exists():
        made = make_user(USER)
        replace_file(folder.key, made.key.reveal())
        replace_file(folder.certificate, made.certificate)  # last: with it the user is complete
    return ClientIdentity(folder.certificate, folder.key)
