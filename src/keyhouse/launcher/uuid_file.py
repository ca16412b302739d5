"""The identity of this instance: a UUID in a file, generated at the first start.

The UUID is not secret, but the keys of a workload depend on it. So an unreadable value is never
replaced.
"""

import os
import stat
import uuid
from contextlib import suppress
from typing import Final

from keyhouse.base.durable_files import name_beside, sync_directory, without_waiting, write_new
from keyhouse.base.printable import os_reason
from keyhouse.launcher.errors import LaunchRefusedError
from keyhouse.wire.workload_api import uuid_of

LARGEST: Final = 256  # bytes; a UUID has 36 characters


def read_uuid(text: bytes) -> uuid.UUID:
    """Parse ``text`` as a UUID, with optional white space around it.

    Raises ``ValueError`` for any other text, and for the nil UUID.
    """
    value = uuid_of(text.decode("ascii", "replace").strip())
    if value is None:
        raise ValueError("does not contain a UUID")
    if value.int == 0:
        raise ValueError("contains the nil UUID")
    return value


def own_uuid(path: str) -> uuid.UUID:
    """Return the UUID in the file ``path``. Create a missing file (0600) with a random UUID.

    Raises ``LaunchRefusedError`` if the file cannot be read or created, or does not contain a UUID.
    """
    try:
        try:
            return _read_existing(path)
        except FileNotFoundError:
            pass
        try:
            return _create(path)
        except FileExistsError:  # another process was faster, or a symbolic link is broken
            return _read_existing(path)
    except ValueError as error:
        raise LaunchRefusedError(
            f"the UUID file {path} {error}",
            hint="restore the content of the file; with another UUID, this instance gets new keys",
        ) from None
    except OSError as error:
        raise LaunchRefusedError(
            f"the UUID file {path} cannot be used: {os_reason(error)}",
            hint="name a file that this user can create and read: --uuid-file",
        ) from None


def _read_existing(path: str) -> uuid.UUID:
    with open(path, "rb", opener=without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("is not a regular file")
        text = file.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise ValueError(f"has more than {LARGEST} bytes, where a UUID has 36")
    return read_uuid(text)


def _create(path: str) -> uuid.UUID:
    fresh = uuid.UUID(bytes=os.urandom(16), version=4)
    create_file(path, str(fresh).encode("ascii"))
    with suppress(OSError):  # some file systems cannot sync a directory
        sync_directory(os.path.dirname(path) or ".")  # noqa: PTH120 the path as it was given
    return fresh


def create_file(path: str, content: bytes) -> None:
    """Write ``content`` to the new file ``path``. Readers see all of the content or no file.

    On a file system without hard links (in an enclave, for example), readers may see an empty file
    for a moment. The directory is not synced. Raises ``FileExistsError`` if the name exists.
    """
    beside = os.path.join(os.path.dirname(path), name_beside())  # noqa: PTH118, PTH120 as it was given
    write_new(beside, content)
    try:
        os.link(beside, path)
    except FileExistsError:
        raise
    except OSError:
        write_new(path, content)
    finally:
        os.unlink(beside)  # noqa: PTH108
