"""Write a folder as a tar file. Its bytes depend only on contents, names and permissions."""

import gzip
import tarfile
from pathlib import Path
from typing import Final

_EXECUTABLE: Final = 0o100
_LEVEL: Final = 9


def write_archive(folder: Path, prefix: str, time: int, target: Path) -> None:
    """Write ``folder`` to ``target`` (.tar or .tar.gz).

    Each name in the archive begins with ``prefix``, which is empty or ends with a slash. Files are
    sorted. Each file has the time ``time`` (s since 1970), the owner root, and the permissions
    0644 or 0755.
    """

    def normalised(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        entry.mtime = time
        runs = entry.isdir() or entry.issym() or entry.mode & _EXECUTABLE
        entry.mode = 0o755 if runs else 0o644
        return entry

    def write(archive: tarfile.TarFile) -> None:
        for path in sorted(folder.rglob("*")):
            name = f"{prefix}{path.relative_to(folder).as_posix()}"
            archive.add(path, name, recursive=False, filter=normalised)

    if target.suffix != ".gz":
        with tarfile.open(target, mode="w", format=tarfile.GNU_FORMAT) as archive:
            write(archive)
        return
    with (
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", _LEVEL, raw, mtime=time) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        write(archive)
