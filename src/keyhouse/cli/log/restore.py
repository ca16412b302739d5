"""`keyhouse log restore`: restore lost files of a log in a state directory, from a mirror."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from keyhouse.base.durable_files import without_waiting
from keyhouse.base.errors import NotFoundError, RefusedError, UnavailableError
from keyhouse.base.user_files import read_file
from keyhouse.cli.output.progress_bar import long_work
from keyhouse.cli.output.show import show_result
from keyhouse.cli.parser import Argument, AsJson, Option, command
from keyhouse.cli.store.directories import Directory, Stopped, require_stopped

if TYPE_CHECKING:
    from keyhouse.journal.offline.log_repair import Restored

T = TypeVar("T", bytes, bytearray)

_LARGEST: Final = 32 << 20  # bytes of an object, chosen: twice the maximum of a manifest
_SECONDS: Final = 30.0  # seconds for each step of an HTTP request, chosen for slow networks
_NO_LINE: Final = (
    "none: the mirror has no line of the root. Lost quotes of the line stay lost, and a recovery"
    " needs them: mirror again, or use a backup"
)


@command
def restore(
    directory: Directory,
    source: Annotated[
        str, Argument(metavar="SOURCE", help="a mirror: a directory or a URL (https://...)")
    ],
    *,
    log_key: Annotated[
        str,
        Option(
            "--log-key",
            metavar="FILE",
            help="file with the key of the log (default: the file key in SOURCE)",
        ),
    ] = "",
    stopped: Stopped = False,
    as_json: AsJson = False,
) -> None:
    """Restore missing files of a log from a mirror.

    DIR is the state directory with missing files. SOURCE is a directory or a URL with a mirror of
    the log, from keyhouse log mirror or any other source. The command verifies all parts. If the
    mirror has the quotes of the root's line, the command also restores these quotes.

    Example: keyhouse log restore keyhouse-data /srv/log
    """
    from keyhouse.journal.offline.log_repair import restore_log

    if not directory.is_dir():
        raise NotFoundError(
            f"{directory} is not a directory", hint="pass the state directory of the coordinator"
        )
    require_stopped(directory, stopped=stopped)
    read = _reader(source)
    key = (read_file(log_key) if log_key else read("key") or b"").decode("ascii", "replace").strip()
    if not key:
        raise RefusedError(
            f"the mirror {source} has no file with the key of its log",
            hint="pass --log-key FILE, with the output of keyhouse log key HOST",
        )
    with long_work("restoring the log", quiet=as_json):
        result = restore_log(directory, key, read)
    _show(result, as_json=as_json)


def _show(result: "Restored", *, as_json: bool) -> None:
    rows = {
        "leaves": str(result.size),
        "restored": f"{result.tiles} tiles, {result.objects} objects",
    }
    if result.missing:
        rows["not in the mirror"] = ", ".join(result.missing)
    rows["line entries"] = str(result.entries) if result.entries else _NO_LINE
    tally = {
        "size": result.size,
        "tiles": result.tiles,
        "objects": result.objects,
        "lineEntries": result.entries,
    }
    show_result({**tally, "missingObjects": result.missing}, rows, as_json=as_json)


def _reader(source: str) -> Callable[[str], bytes | None]:
    return _fetching(source) if source.startswith(("https://", "http://")) else _in(Path(source))


def _in(folder: Path) -> Callable[[str], bytes | None]:
    if not folder.is_dir():
        raise NotFoundError(
            f"the directory {folder} of the mirror does not exist",
            hint="pass the directory or the https URL of a mirror as SOURCE",
        )

    def read(path: str) -> bytes | None:
        try:
            with open(folder / path, "rb", opener=without_waiting) as file:
                return _bounded(file.read(_LARGEST + 1))
        except FileNotFoundError:
            return None

    return read


def _fetching(url: str) -> Callable[[str], bytes | None]:
    import httpx

    client = httpx.Client(trust_env=False, timeout=_SECONDS)

    def read(path: str) -> bytes | None:
        try:
            with client.stream("GET", f"{url.rstrip('/')}/{path}") as answer:
                if answer.status_code == httpx.codes.NOT_FOUND:
                    return None
                if answer.status_code != httpx.codes.OK:
                    raise UnavailableError(
                        f"the mirror answers {answer.status_code} for {path}, expected 200",
                        hint="check the address of the mirror",
                    )
                raw = bytearray()
                for part in answer.iter_bytes():
                    raw += part
                    _bounded(raw)
                return bytes(raw)
        except (httpx.HTTPError, httpx.InvalidURL):
            raise UnavailableError(
                f"the mirror does not answer for {path}",
                hint="check the address of the mirror, and its web server",
            ) from None

    return read


def _bounded(raw: T) -> T:
    if len(raw) > _LARGEST:
        raise RefusedError(
            f"a part of the mirror has more than {_LARGEST} bytes",
            hint="check that SOURCE is the directory or the URL of a mirror",
        )
    return raw
