"""The identity of this instance: a UUID in a file, made at the first start and kept from then on.

The UUID is no secret, but the keys of a workload depend on it: a value that cannot be read is never
replaced.
"""

import os
import stat
import uuid
from contextlib import suppress
from typing import Final

from keyhouse.base.durable_files import name_beside, sync_directory, write_new
from keyhouse.base.openers import without_waiting
from keyhouse.base.printable import os_reason
from keyhouse.launcher.errors import LaunchRefusedError
from keyhouse.wire.workload_api import uuid_of

LARGEST: Final = 256  # bytes


def read_uuid(text: bytes) -> uuid.UUID:
    """Return the UUID that ``text`` spells; white space around it is dropped.

    ``ValueError`` for everything else, the nil UUID too.
    """
    found = uuid_of(text.decode("ascii", "replace").strip())
    if found is None:
        raise ValueError("is not a UUID")
    if found.int == 0:
        raise ValueError("is the nil UUID")
    return found


def own_uuid(path: str) -> uuid.UUID:
    """Return the UUID in the file ``path``, which is made (0600, a random one) if there is none.

    Raises ``LaunchRefusedError`` for a file that cannot be read or made, or holds no UUID.
    """
    try:
        try:
            return _kept(path)
        except FileNotFoundError:
            pass
        try:
            return _made(path)
        except FileExistsError:  # another process was faster, or a symbolic link leads nowhere
            return _kept(path)
    except ValueError as error:
        raise LaunchRefusedError(
            f"the UUID file {path} cannot be used: it {error}",
            hint="put back what it held; without it this instance is another one, with other keys",
        ) from None
    except OSError as error:
        raise LaunchRefusedError(
            f"the UUID file {path} cannot be used: {os_reason(error)}",
            hint="name a file that this user can make and read: --uuid-file",
        ) from None


def _kept(path: str) -> uuid.UUID:
    with open(path, "rb", opener=without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("is not a regular file")
        text = file.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise ValueError("is too long")
    return read_uuid(text)


def _made(path: str) -> uuid.UUID:
    fresh = uuid.UUID(bytes=os.urandom(16), version=4)
    create_file(path, str(fresh).encode("ascii"))
    with suppress(OSError):  # of those that cannot sync a directory
        sync_directory(os.path.dirname(path) or ".")  # noqa: PTH120 the path as it was given
    return fresh


def create_file(path: str, content: bytes) -> None:
    """Write ``content`` to the new file ``path``. Concurrent readers see all of it or no file.

    Without hard links (in an enclave, for example), readers may see an empty file for a moment. The
    name is not synced. Raises ``FileExistsError`` if the name exists.
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
