"""Check a rendered Gramine manifest against the security rules of Keyhouse.

Usage: python3 lint.py [--lock FILE] keyhouse.manifest [...]

Accepts the output of gramine-manifest and of gramine-sgx-sign. Prints one line for each violated
rule. Exit codes: 0 without a violation, 1 with violations, 2 if a file cannot be read.

The trusted files must exist on this machine. Each trusted file must belong to Gramine, to the
interpreter and its libraries, to a wheel of the coordinator, or to a package of the lock FILE. The
default of FILE is locks/coordinator.txt of this tree. The RECORD of a package lists its files with
their digests. The digests in a signed manifest must be equal to the digests in RECORD. Run this
program with the Python version of the runtime, because the list of standard modules comes from
the running Python.
"""

import os
import re
import sys
import tomllib
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Mapping, Sequence
from csv import reader
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

PASSED_THROUGH: Final = frozenset(
    {
        "EDG_COORDINATOR_CLIENT_ADDR",
        "EDG_COORDINATOR_DNS_NAMES",
        "EDG_COORDINATOR_MESH_ADDR",
        "EDG_COORDINATOR_PROMETHEUS_ADDR",
        "EDG_COORDINATOR_SEAL_DIR",
        "EDG_STARTUP_MANIFEST",
        "KEYHOUSE_CLIENT_ADDR",
        "KEYHOUSE_DATA_DIR",
        "KEYHOUSE_DNS_NAMES",
        "KEYHOUSE_LOG_FORMAT",
        "KEYHOUSE_LOG_LEVEL",
        "KEYHOUSE_MESH_ADDR",
        "KEYHOUSE_METRICS_ADDR",
        "KEYHOUSE_STARTUP_MANIFEST",
        "KEYHOUSE_STARTUP_RECOVERY_FILE",
        "KEYHOUSE_STORE",
        "KEYHOUSE_STORE_STANDBYS",
    }
)
"""Variables of the settings of class *host*. The host may choose only these variables."""

_FIXED: Final = PASSED_THROUGH | {
    *("KEYHOUSE_ISOLATED", "LANG", "LD_LIBRARY_PATH", "MALLOC_ARENA_MAX", "PATH", "TZ"),
}
_COMMAND: Final = ["-I", "-B", "-m", "keyhouse.server"]
# Without this value, Keyhouse would execute itself again, without LD_LIBRARY_PATH.
_ISOLATED: Final = ("KEYHOUSE_ISOLATED", "measured")
_PLATFORM_FILES: Final = ("/dev", "/proc", "/sys")
_QUIET: Final = {"none", "error", "warning"}
_SIZES: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SMALLEST: Final = 512 << 20
_SMALLEST_STACK: Final = 2 << 20
# Keyhouse has 15 threads where Python sees 64 processors, Gramine has 3. The rest is a reserve.
_FEWEST_THREADS: Final = 24
_LIBRARIES: Final = ("libgcc_s.so.1", "libstdc++.so.6")
_LARGEST_NUMBER: Final = 0xFFFF
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")

_OWN: Final = ("keyhouse-base", "keyhouse-coordinator")
_LOCK: Final = Path(__file__).resolve().parent / "../../locks/coordinator.txt"


def problems(manifest: Mapping[str, Any]) -> list[str]:
    """Return a line for each violated rule of a parsed manifest. A line begins with the key."""
    return [
        *_every_key(manifest, ""),
        *_enclave(_table(manifest, "sgx")),
        *_arguments(manifest),
        *_environment(_table(manifest, "loader")),
        *_system(_table(manifest, "sys")),
        *_mounts(_table(manifest, "fs")),
        *_data_mount(manifest),
        *_files(manifest),
    ]


def main(words: Sequence[str]) -> int:
    """Check each manifest file; return the exit code."""
    lock, paths = _LOCK, [*words]
    if paths[:1] == ["--lock"]:
        lock, paths = Path(*paths[1:2]), paths[2:]
    if not paths:
        sys.stderr.write("usage: lint.py [--lock FILE] MANIFEST [...]\n")
        return 2
    try:
        locked = lock.read_text(encoding="utf-8")
    except OSError:
        sys.stderr.write(f"{lock}: cannot be read; name the lock of the coordinator: --lock FILE\n")
        return 2
    code = 0
    for path in paths:
        try:
            manifest = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            sys.stderr.write(f"{path}: cannot be read as TOML; render it first\n")
            return 2
        found = problems(manifest)
        if not found:  # a manifest with violations may state wrong paths
            found = foreign_files(manifest, locked)
        for problem in found:
            sys.stdout.write(f"{path}: {problem}\n")
        code = 1 if found else code
    return code


def _every_key(value: object, at: str) -> Iterator[str]:
    """Yield the violations in any part of a manifest: insecure options, unrendered values."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            place = f"{at}.{key}" if at else str(key)
            if "insecure__" in key:
                yield f"{place}: options named insecure__ remove the protection; remove the option"
            yield from _every_key(below, place)
    elif isinstance(value, list):
        for number, below in enumerate(value):
            yield from _every_key(below, f"{at}[{number}]")
    elif isinstance(value, str) and ("{{" in value or "{%" in value):
        yield f"{at}: is not rendered"


def _enclave(sgx: Mapping[str, Any]) -> Iterator[str]:
    if sgx.get("debug") is not False:
        yield "sgx.debug: must be false; the host reads the memory of a debug enclave"
    if sgx.get("remote_attestation") != "dcap":
        yield 'sgx.remote_attestation: must be "dcap"'
    if sgx.get("file_check_policy") != "strict":
        yield 'sgx.file_check_policy: must be "strict"; otherwise unmeasured files can be read'
    for name in ("isvprodid", "isvsvn"):
        if not _is_number(sgx.get(name), 1, _LARGEST_NUMBER):
            yield f"sgx.{name}: must be a number of 1 or more; for clients 0 means not given"
    if _size(sgx.get("enclave_size")) < _SMALLEST:
        yield "sgx.enclave_size: must be at least 512M"
    if not _is_number(sgx.get("max_threads"), _FEWEST_THREADS, _LARGEST_NUMBER):
        yield f"sgx.max_threads: must be at least {_FEWEST_THREADS}"
    if "seal_key" in sgx:
        yield "sgx.seal_key: must not be set; its masks could let other enclaves derive the keys"
    if _table(sgx, "profile").get("enable", "none") not in {"none", False}:
        yield "sgx.profile.enable: must not be set; profiles need sgx.debug"


def _arguments(manifest: Mapping[str, Any]) -> Iterator[str]:
    loader = _table(manifest, "loader")
    if loader.get("log_level", "error") not in _QUIET:
        yield (
            "loader.log_level: must be none, error or warning; further levels log arguments and"
            " paths"
        )
    if "argv_src_file" in loader:
        yield "loader.argv_src_file: must not be set; arguments are fixed in loader.argv"
    argv = loader.get("argv")
    if not (isinstance(argv, list) and argv and all(isinstance(word, str) for word in argv)):
        yield "loader.argv: must be a list of fixed words"
        return
    if argv[0] != _table(manifest, "libos").get("entrypoint"):
        yield "libos.entrypoint: must be the first word of loader.argv"
    if argv[1 : 1 + len(_COMMAND)] != _COMMAND:
        yield f"loader.argv: must continue with {' '.join(_COMMAND)}"
    yield from _flags(argv[1 + len(_COMMAND) :])


def _flags(words: Sequence[str]) -> Iterator[str]:
    pairs = [*zip(words, [*words[1:], ""], strict=True)]
    platforms = [value for word, value in pairs if word == "--platform"]
    platforms += [word for word in words if word.startswith("--platform=")]
    if platforms not in (["gramine"], ["--platform=gramine"]):
        yield "loader.argv: must have --platform gramine, once"
    if "--confirm-clock" in words:
        yield "loader.argv: must not have --confirm-clock; this argument is for a single start"


def _environment(loader: Mapping[str, Any]) -> Iterator[str]:
    if "env_src_file" in loader:
        yield "loader.env_src_file: must not be set; the host would choose the environment"
    variables = _table(loader, "env")
    name, word = _ISOLATED
    if variables.get(name) not in (word, {"value": word}):
        yield (
            f'loader.env.{name}: must be "{word}"; Keyhouse then uses the variables of this table'
        )
    for name, value in variables.items():
        place = f"loader.env.{name}"
        if isinstance(value, Mapping):
            fixed = value.get("value")
            if value.get("passthrough") is True and name not in PASSED_THROUGH:
                yield f"{place}: must not come from the host"
            if value.get("passthrough") is not True and not isinstance(fixed, str):
                yield f"{place}: must have a fixed value, or passthrough = true"
        elif not isinstance(value, str):
            yield f"{place}: must be a text"
        if name not in _FIXED:
            yield f"{place}: must not be set; this variable could change the program"


def _system(sys_: Mapping[str, Any]) -> Iterator[str]:
    if _size(_table(sys_, "stack").get("size")) < _SMALLEST_STACK:
        yield "sys.stack.size: must be at least 2M; deeply nested JSON overflows a smaller stack"
    for name, why in _NEEDED.items():
        if sys_.get(name) is not True:
            yield f"sys.{name}: must be true; {why}"


_NEEDED: Final = {
    "enable_sigterm_injection": "otherwise nothing stops the coordinator in order",
    "disallow_subprocesses": "the coordinator starts no processes",
    "experimental__enable_flock": "flock locks the state directory",
}


def _mounts(fs: Mapping[str, Any]) -> Iterator[str]:
    if _table(fs, "root").get("type") != "tmpfs":
        yield 'fs.root.type: must be "tmpfs"; the default is the working directory on the host'
    mounts = fs.get("mounts", [])
    if not isinstance(mounts, list):
        yield "fs.mounts: must be a list"
        return
    for number, mount in enumerate(mounts):
        path = str(mount.get("path", "")) if isinstance(mount, Mapping) else ""
        if not path.startswith("/") or ".." in path.split("/") or not path.strip("/"):
            yield f"fs.mounts[{number}].path: must be an absolute path below /, without .."
        top = "/" + path.strip("/").split("/")[0]
        if top in _PLATFORM_FILES:
            yield f"fs.mounts[{number}].path: must not hide {top}; the platform reads files there"
        before = [
            str(each.get("path", "")) for each in mounts[:number] if isinstance(each, Mapping)
        ]
        for hidden in before:
            if _folder(hidden).startswith(_folder(path)) and path != hidden:
                yield f"fs.mounts[{number}].path: hides {hidden}; put {hidden} after this mount"


def _data_mount(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the violations of the rule that the state is on a plain mount.

    Gramine overwrites an encrypted file in place. A kill between two writes to the host leaves an
    unreadable file, so all acknowledged changes in this file are lost. The key of the file comes
    from the processor, so neither recovery keys nor a different machine can decrypt a backup.
    """
    words = [str(word) for word in _list(_table(manifest, "loader"), "argv")]
    given = [value for word, value in pairwise(words) if word == "--data-dir"]
    given += [word.partition("=")[2] for word in words if word.startswith("--data-dir=")]
    data = _folder(given[-1]) if given else ""
    holds = False
    for number, mount in enumerate(_list(_table(manifest, "fs"), "mounts")):
        path = _folder(str(mount.get("path", ""))) if isinstance(mount, Mapping) else "/"
        kind = mount.get("type", "chroot") if isinstance(mount, Mapping) else ""
        of_data = bool(data) and (data.startswith(path) or path.startswith(data))
        holds = holds or (of_data and kind == "chroot")
        if kind == "encrypted" or (of_data and kind != "chroot"):
            yield (
                f"fs.mounts[{number}].type: must not be {kind}; Keyhouse encrypts its state itself,"
                " and only on a plain mount the state survives kills, backups and recovery"
            )
    if data and not holds:
        yield f"fs.mounts: must have a plain mount for --data-dir {given[-1]}"


def _files(manifest: Mapping[str, Any]) -> Iterator[str]:
    sgx = _table(manifest, "sgx")
    trusted = [_uri(entry) for entry in _list(sgx, "trusted_files")]
    allowed = [_uri(entry) for entry in _list(sgx, "allowed_files")]
    if not trusted or not all(uri.startswith("file:") for uri in trusted):
        yield "sgx.trusted_files: must be a list of file: URIs"
    for name in _LIBRARIES:
        if not any(uri.endswith(f"/{name}") for uri in trusted):
            yield f"sgx.trusted_files: must have {name}; packages with C++ or Rust need it"
    for number, entry in enumerate(_list(sgx, "trusted_files")):
        if isinstance(entry, Mapping) and not _DIGEST.fullmatch(str(entry.get("sha256"))):
            yield f"sgx.trusted_files[{number}].sha256: must be 64 hex digits"
    # AMD signs its collateral, so the collateral may come from the host. The coordinator verifies
    # the signatures and refuses older collateral.
    words = [str(word).partition("=")[0] for word in _list(_table(manifest, "loader"), "argv")]
    directories = 2 if "--amd-collateral" in words else 1
    if len(allowed) != directories or not all(re.fullmatch(r"file:.*[^/]/", a) for a in allowed):
        yield (
            "sgx.allowed_files: must be only the data directory, and with --amd-collateral also"
            " the directory of this argument, both with / at the end"
        )
        return
    for mine in allowed:
        if any(uri.startswith(mine) or mine.startswith(_folder(uri)) for uri in trusted):
            yield "sgx.allowed_files: must not overlap with sgx.trusted_files"


def foreign_files(manifest: Mapping[str, Any], lock: str) -> list[str]:
    """Return one line for each package, folder or file that must not be trusted.

    ``lock`` is the text of the lock. The trusted files must exist on this machine.
    """
    loader = _table(manifest, "loader")
    runtime = Path(str(_table(manifest, "libos").get("entrypoint"))).parent.parent
    searched = str(_table(loader, "env").get("LD_LIBRARY_PATH", "")).split(":")
    libraries = {Path(path) for path in searched} | {runtime / "lib"}
    mounts = _list(_table(manifest, "fs"), "mounts")
    of_gramine = [str(each.get("uri", "")) for each in mounts if each.get("path") == "/lib"]
    gramine = [_path(uri) for uri in (*of_gramine, str(_table(loader, "entrypoint").get("uri")))]
    recorded: dict[Path, str] = {}
    found: dict[str, None] = {}  # an ordered set
    for packages in sorted(runtime.glob("lib/python3*/*-packages")):
        records, problems_ = _records(packages, lock)
        recorded |= records
        found |= dict.fromkeys(problems_)
    for path, digest in _trusted(manifest):
        if any(path == known or known in path.parents for known in gramine):
            continue
        if path.parent in libraries and re.search(r"\.so(\.[0-9]+)*$", path.name):
            continue
        place = _foreign_place(path, digest, runtime, recorded)
        if place:
            found[f"sgx.trusted_files: must not have {place}"] = None
    return [*found]


def _foreign_place(
    path: Path, digest: str, runtime: Path, recorded: Mapping[Path, str]
) -> str | None:
    """Return the reason if ``path`` is not a file of the coordinator, otherwise None."""
    if not path.exists():
        return f"{path}; it does not exist on this machine"
    if runtime not in path.parents:
        return f"{path}; it is outside of the runtime {runtime}"
    parts = path.relative_to(runtime).parts
    top = runtime.joinpath(*parts[:4])
    match parts:
        case ["lib", _, folder, *_] if folder.endswith("-packages"):
            return _in_packages(path, digest, top, recorded)
        case ["bin", name]:
            known = bool(re.fullmatch(r"python3(\.[0-9]+)?", name))
        case ["measured", *_]:  # files for arguments, such as a CA
            known = not re.search(r"\.(pyc?|pth|so(\.[0-9]+)*)$", path.name)
        case ["lib", python, name, *_]:
            known = python.startswith("python3") and _is_standard(name)
        case _:
            known = False
    return None if known else f"{top}; neither the interpreter nor a package of the lock has it"


def _in_packages(path: Path, digest: str, first: Path, recorded: Mapping[Path, str]) -> str | None:
    """Return the reason if a file below the packages belongs to no package, otherwise None."""
    if path.name.endswith(".packed") and path.parent.parent.name == "keyhouse":
        return None  # finish.py has packed the code of a start from the files of the packages
    source = path
    if path.suffix == ".pyc" and path.parent.name == "__pycache__":
        source = path.parent.with_name(f"{path.name.partition('.')[0]}.py")
    if source not in recorded:
        return f"{first}; the RECORD of no package of the lock has {path.name}"
    if source == path and digest and recorded[source] not in {"", digest}:
        return f"{path} with the digest {digest}; its package states {recorded[source]}"
    return None


def _is_standard(name: str) -> bool:
    """Return whether a file or folder of this name belongs to the standard library."""
    known = {"LICENSE.txt", "__hello__.py", "__phello__", "__pycache__", "lib-dynload"}
    known.add("_distutils_system_mod.py")  # in Debian's Python
    module = name.partition(".")[0]
    return name in known or module in sys.stdlib_module_names or name.startswith("_sysconfigdata_")


def _records(packages: Path, lock: str) -> tuple[dict[Path, str], list[str]]:
    """Return the files of the expected packages with digests, and a line for each other package.

    A digest is SHA-256 in hex, or empty for a file without a digest, such as RECORD itself.
    """
    pinned = re.findall(r"^([A-Za-z0-9_.-]+)==([^ ;]+)", lock, re.MULTILINE)
    versions = {_plain(name): version for name, version in pinned}
    recorded: dict[Path, str] = {}
    unwanted = []
    for folder in sorted(packages.glob("*.dist-info")):
        name, _, version = folder.name.removesuffix(".dist-info").partition("-")
        if _plain(name) not in _OWN and versions.get(_plain(name)) != version:
            unwanted.append(
                f"sgx.trusted_files: must not have the package {name} {version}; the lock states"
                f" {versions.get(_plain(name), 'no version of it')}"
            )
            continue
        with (folder / "RECORD").open(encoding="utf-8", newline="") as file:
            for path, digest, _size in reader(file):
                encoded = digest.removeprefix("sha256=")
                plain = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).hex()
                recorded[Path(os.path.normpath(packages / path))] = plain
    return recorded, unwanted


def _plain(name: str) -> str:
    """Return the normalized name of a package (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _trusted(manifest: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield each trusted file with its digest in hex. The digest is empty before the signature."""
    for entry in _list(_table(manifest, "sgx"), "trusted_files"):
        path = _path(_uri(entry))
        digest = str(entry.get("sha256", "")) if isinstance(entry, Mapping) else ""
        if not path.is_dir():
            yield path, digest
            continue
        for folder, _, names in os.walk(path, followlinks=True):
            for name in names:
                yield Path(folder) / name, ""


def _path(uri: str) -> Path:
    return Path(uri.removeprefix("file:"))


def _folder(uri: str) -> str:
    """Return ``uri`` with / at the end. Each path below the folder begins with this text."""
    return uri if uri.endswith("/") else uri + "/"


def _uri(entry: object) -> str:
    return str(entry.get("uri", "")) if isinstance(entry, Mapping) else str(entry)


def _list(table: Mapping[str, Any], name: str) -> list[Any]:
    found = table.get(name)
    return found if isinstance(found, list) else []


def _table(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = table.get(name)
    return found if isinstance(found, Mapping) else {}


def _is_number(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _size(text: object) -> int:
    found = re.fullmatch(r"([0-9]{1,6})([KMG])", text) if isinstance(text, str) else None
    return int(found[1]) * _SIZES[found[2]] if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
