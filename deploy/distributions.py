"""Divide the wheel of the whole tree into one wheel for each distribution.

Usage::

    python3 distributions.py split FOLDER WHEEL...
    python3 distributions.py requirements NAME

``[tool.keyhouse.distributions]`` in pyproject.toml assigns the rooms to the distributions. The
metadata of each wheel comes from the wheel of the whole tree, so each text has one source. Times
are fixed and files are sorted, so equal sources give equal bytes.
"""

import hashlib
import re
import sys
import tomllib
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any, Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

ROOT: Final = Path(__file__).parents[1]
_TIME: Final = (1980, 1, 1, 0, 0, 0)  # the earliest possible time in a zip file
_PERMISSIONS: Final = 0o100644 << 16
_WHEEL: Final = b"""\
Wheel-Version: 1.0
Generator: keyhouse
Root-Is-Purelib: true
Tag: py3-none-any
"""


class Table:
    """The table of distributions in pyproject.toml."""

    def __init__(self, project: dict[str, Any]) -> None:
        self.project: Final[dict[str, Any]] = project["project"]
        self.rows: Final[dict[str, dict[str, Any]]] = project["tool"]["keyhouse"]["distributions"]

    @classmethod
    def read(cls) -> "Table":
        """Return the table of this tree."""
        return cls(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8")))

    def owner(self, module: str) -> str | None:
        """Return the distribution of ``module``, or None if no room contains it."""
        best, owner = "", None
        for name, row in self.rows.items():
            if module in row["modules"]:
                return name
            for room in row["rooms"]:
                if f"{module}.".startswith(f"{room}.") and len(room) > len(best):
                    best, owner = room, name
        return owner

    def closure(self, name: str) -> list[str]:
        """Return ``name`` and its required distributions."""
        return [name, *self.rows[name]["needs"]]

    def libraries(self, name: str) -> list[str]:
        """Return only the requirements of ``name`` itself, with the versions of the project."""
        known = {_plain(each): each for each in self.project["dependencies"]}
        return [known[_plain(each)] for each in self.rows[name]["libraries"]]

    def requirements(self, name: str) -> list[str]:
        """Return the libraries to lock for ``name``, also those of its extra ``postgres``."""
        found = {line for each in self.closure(name) for line in self.libraries(each)}
        if "postgres" in self.rows[name].get("extras", []):
            found |= {*self.project["optional-dependencies"]["postgres"]}
        return sorted(found)


def _plain(requirement: str) -> str:
    (name,) = re.findall(r"^[A-Za-z0-9._-]+", requirement)
    return str(name).lower().replace("_", "-")


def module_of(path: str) -> str:
    """Return the module of a file in a wheel. Return the package for a file without Python."""
    folder, _, file = path.rpartition("/")
    stem = file.removesuffix(".py")
    return folder.replace("/", ".") + ("" if file in {stem, "__init__.py"} else f".{stem}")


def split(table: Table, wheels: Sequence[Path], folder: Path) -> list[Path]:
    """Write a wheel for each distribution into ``folder``; return their paths.

    Raises ``ValueError`` for a file that belongs to no distribution.
    """
    contents: dict[str, dict[str, bytes]] = {name: {} for name in table.rows}
    metadata: dict[str, bytes] = {}
    entry_points: dict[str, bytes] = {}
    licences: dict[str, bytes] = {}
    for wheel in wheels:
        name = wheel.name.split("-")[0].replace("_", "-")
        with ZipFile(wheel) as archive:
            for path in sorted(archive.namelist()):
                content = archive.read(path)
                if ".dist-info/" not in path:
                    owner = table.owner(module_of(path))
                    if owner is None:
                        raise ValueError(f"{path} belongs to no distribution")
                    contents[owner][path] = content
                elif path.endswith("/METADATA"):
                    metadata[name] = content
                elif path.endswith("/entry_points.txt"):
                    entry_points[name] = content
                elif "/licenses/" in path:
                    licences[path.partition(".dist-info/")[2]] = content
    made = []
    for name, files in contents.items():
        info = {"METADATA": _metadata(table, name, metadata), **licences}
        if name in entry_points:
            info["entry_points.txt"] = entry_points[name]
        made.append(_write(folder, name, table.project["version"], files, info))
    return made


def _metadata(table: Table, name: str, whole: dict[str, bytes]) -> bytes:
    message: Message = message_from_bytes(whole.get(name, whole["keyhouse"]))
    row, version = table.rows[name], table.project["version"]
    message.replace_header("Name", name)
    message.replace_header("Summary", row["summary"])
    kept = list(_of_extras(message, row.get("extras", [])))
    for header in ("Requires-Dist", "Provides-Extra"):
        del message[header]
    for need in row["needs"]:
        message["Requires-Dist"] = f"{need}=={version}"
    for library in table.libraries(name):
        message["Requires-Dist"] = library
    for header, value in kept:
        message[header] = value
    # The project's text describes the command, so only the command's distribution has this text.
    text = f"{row['summary']}. Part of Keyhouse, a coordinator of confidential computing.\n"
    if name == "keyhouse":
        whole_text = message.get_payload(decode=True)
        text = _without_places(whole_text.decode("utf-8") if isinstance(whole_text, bytes) else "")
    del message["Description-Content-Type"]
    message["Description-Content-Type"] = "text/markdown"
    message.set_payload(text.encode("utf-8").decode("ascii", "surrogateescape"))
    return message.as_bytes()


def _without_places(text: str) -> str:
    """Return Markdown without links to files of the repository. An index has no such files."""
    text = re.sub(r"!\[[^\]]*\]\((?!https://)[^)]*\)\n*", "", text)
    return re.sub(r"\[([^\]]*)\]\((?!https://)[^)]*\)", r"\1", text)


def _of_extras(message: Message, extras: Sequence[str]) -> Iterator[tuple[str, str]]:
    for extra in extras:
        yield "Provides-Extra", extra
        for requirement in message.get_all("Requires-Dist", []):
            if re.search(rf"""extra == ['"]{extra}['"]""", str(requirement)):
                yield "Requires-Dist", str(requirement)


def _write(
    folder: Path, name: str, version: str, files: dict[str, bytes], info: dict[str, bytes]
) -> Path:
    plain = name.replace("-", "_")
    place = f"{plain}-{version}.dist-info"
    info["WHEEL"] = _WHEEL
    every = dict(sorted(files.items())) | {f"{place}/{file}": info[file] for file in sorted(info)}
    record = "".join(f"{path},{_digest(every[path])},{len(every[path])}\n" for path in every)
    every[f"{place}/RECORD"] = f"{record}{place}/RECORD,,\n".encode()
    wheel = folder / f"{plain}-{version}-py3-none-any.whl"
    with ZipFile(wheel, "w", ZIP_DEFLATED) as archive:
        for path, content in every.items():
            entry = ZipInfo(path, _TIME)
            entry.external_attr = _PERMISSIONS
            entry.compress_type = ZIP_DEFLATED
            archive.writestr(entry, content)
    return wheel


def _digest(content: bytes) -> str:
    digest = urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
    return f"sha256={digest.decode('ascii')}"


def main(words: Sequence[str]) -> int:
    """Run the command in ``words``; return the exit code."""
    table = Table.read()
    match words:
        case ["requirements", name]:
            sys.stdout.write("".join(f"{line}\n" for line in table.requirements(name)))
        case ["split", folder, *wheels]:
            for wheel in split(table, [Path(each) for each in wheels], Path(folder)):
                sys.stdout.write(f"{wheel}\n")
        case _:
            sys.stderr.write(f"{__doc__}")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
