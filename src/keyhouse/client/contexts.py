"""A user's contexts, in a file: for each deployment, the options that its commands need.

::

    current = "prod"

    [contexts.prod]
    address = "keyhouse.example.com:4433"
    attestation = "/home/ann/prod/attestation.json"
    ...

The file decides which coordinator is trusted. So the file has mode 0600, and a file that other
users can write is refused. The file contains paths, never a password.
"""

import os
import re
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, get_type_hints

import msgspec

from keyhouse.base.durable_files import replace_file, without_waiting
from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import os_reason
from keyhouse.base.user_files import reading_hint, user_folder, writing_hint
from keyhouse.client.file_lock import locked
from keyhouse.wire.json_decoder import nearest, resembling

NAMES: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_LARGEST: Final = 1 << 20  # bytes, chosen: a context has less than 1,000
_DIGITS: Final = 10  # fewer digits: less than 32 years in seconds
_POSITION: Final = re.compile(r"at line ([0-9]+), column ([0-9]+)")
_NONE: Final = "none"


class ContextUnusableError(RefusedError):
    """A context, or the file of contexts, is unusable."""

    code = "context-unusable"
    next_step = "correct the file, or write the context again: keyhouse context add NAME --replace"


class ContextsSyntaxError(ContextUnusableError):
    """The file of contexts is not TOML. ``place``: line and column, from 1, or None if unknown."""

    def __init__(self, path: Path, content: bytes, place: tuple[int, int] | None) -> None:
        where = f" at line {place[0]}" if place else ""
        super().__init__(
            f"the contexts in {path} are invalid TOML{where}", hint="correct or remove the file"
        )
        self.path = path
        self.content = content
        self.place = place


class SavedContext(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="kebab"):
    """The options of one deployment for one user: address, trust, and the user's key.

    An empty field is an option that the user has not set. Paths are absolute.
    """

    address: str = ""
    attestation: str = ""
    simulation_root: str = ""
    accepted_tcb_statuses: tuple[str, ...] = ()
    accepted_advisories: tuple[str, ...] = ()
    collateral: str = ""
    pccs: str = ""
    pccs_ca: str = ""
    witness_policy: str = ""
    log_max_age: str = ""  # seconds
    first_manifest: str = ""  # its fingerprint, hex
    manifests: str = ""  # "all": each manifest must be accepted
    cert: str = ""
    key: str = ""
    pkcs12: str = ""
    pkcs11_config: str = ""
    pkcs11_key_label: str = ""
    pkcs11_key_id: str = ""
    memory: str = ""

    @property
    def log_age(self) -> int | None:
        """The seconds in ``log_max_age``, or None. Raises ``ContextUnusableError``."""
        text = self.log_max_age
        if not text:
            return None
        if not (text.isascii() and text.isdecimal() and len(text) < _DIGITS) or not int(text):
            raise ContextUnusableError(
                f"log-max-age in the context is {text!r}, must be a number of seconds above 0"
            )
        return int(text)

    @property
    def judged_manifests(self) -> Literal["", "all"]:
        """The value "all" if the user must have accepted each later manifest, or else "".

        Raises ``ContextUnusableError`` for a different text in the context.
        """
        if self.manifests not in {"", "all"}:
            raise ContextUnusableError(
                f"manifests in the context is {self.manifests!r}, must be all"
            )
        return "all" if self.manifests else ""

    @property
    def user_is_on(self) -> Literal["files", "pkcs12", "token", ""]:
        """The source of the user's key: "files", "pkcs12", "token", or "" without a user.

        A token without a key label or id is for recoveries only, so the result is "".
        """
        if self.key:
            return "files"
        if self.pkcs12:
            return "pkcs12"
        return "token" if self.pkcs11_key_label or self.pkcs11_key_id else ""


class Contexts(msgspec.Struct, frozen=True):
    """All contexts by name. ``current`` is the name of the current context, or ""."""

    current: str = ""
    contexts: dict[str, SavedContext] = {}


class NamedContext(msgspec.Struct, frozen=True):
    """A context with its name.

    ``is_implied``: no name was given, so the current context applies.
    """

    name: str
    context: SavedContext
    is_implied: bool


def chosen_context(name: str = "") -> NamedContext | None:
    """Return the context ``name``, or that of ``$KEYHOUSE_CONTEXT``, or the current context.

    None: no context applies, or the name is ``none``. Raises ``ContextUnusableError`` for an
    unknown name.
    """
    named = name or os.environ.get("KEYHOUSE_CONTEXT", "")
    if named == _NONE:
        return None
    known = read(contexts_path())
    chosen = named or known.current
    if not chosen:
        return None
    by = "correct KEYHOUSE_CONTEXT; " if named and not name else ""
    return NamedContext(chosen, context_named(known, chosen, by), is_implied=not named)


def context_named(known: Contexts, name: str, by: str = "") -> SavedContext:
    """Return the context ``name``. Raises ``ContextUnusableError`` if it does not exist.

    ``by`` is the begin of the hint in this error: it names the variable that contains ``name``.
    Empty: ``name`` does not come from a variable.
    """
    if name not in known.contexts:
        close = resembling(name, known.contexts)
        meant = f"did you mean {close}?" if close else "list the contexts: keyhouse context list"
        raise ContextUnusableError(f"there is no context {name!r}", hint=by + meant)
    return known.contexts[name]


def contexts_path() -> Path | None:
    """Return ``keyhouse/contexts.toml`` in ``$XDG_CONFIG_HOME`` or ``~/.config``.

    None: no variable names a folder for the user.
    """
    folder = user_folder("XDG_CONFIG_HOME", ".config")
    return None if folder is None else folder / "contexts.toml"


def own_contexts_path() -> Path:
    """Return the path of the user's contexts, as ``contexts_path`` does.

    Raises ``ContextUnusableError`` if no variable names a folder for the user.
    """
    path = contexts_path()
    if path is None:
        raise ContextUnusableError(
            "there is no directory for the contexts: neither XDG_CONFIG_HOME nor HOME has an"
            " absolute path",
            hint="set XDG_CONFIG_HOME or HOME to a directory",
        )
    return path


def read(path: Path | None) -> Contexts:
    """Return the contexts at ``path``; no contexts for a missing file, and for None.

    Raises ``ContextUnusableError`` for an unusable file.
    """
    if path is None:
        return Contexts()
    try:
        with open(path, "rb", opener=without_waiting) as file:
            _require_own(path, os.fstat(file.fileno()))
            content = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise ContextUnusableError(
            f"the contexts in {path} cannot be read: {os_reason(error)}",
            hint=reading_hint(path, error),
        ) from None
    try:
        tree = tomllib.loads(content.decode()) if len(content) <= _LARGEST else None
    except (ValueError, RecursionError) as error:  # also too many digits, arrays too deep
        raise _invalid(path, content, str(error)) from None
    if tree is None:
        raise _invalid(path, b"", "")
    return _contexts(path, tree)


def _invalid(path: Path, content: bytes, message: str) -> "ContextsSyntaxError":
    """Return the error for an invalid TOML file, with the place in the parser's ``message``."""
    position = _POSITION.search(message)
    place = (int(position[1]), int(position[2])) if position else None
    return ContextsSyntaxError(path, content, place)


def change(path: Path, step: Callable[[Contexts], Contexts]) -> Contexts:
    """Replace the contexts at ``path`` by the result of ``step``, and return this result.

    A lock prevents concurrent changes by several processes. Raises ``ContextUnusableError``, and
    the errors of ``step``. After an error nothing has changed.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(path):
            contexts = step(read(path))
            write(path, contexts)
    except OSError as error:
        raise ContextUnusableError(
            f"the contexts in {path} cannot be changed: {os_reason(error)}", hint=_elsewhere(error)
        ) from None
    return contexts


def write(path: Path, contexts: Contexts) -> None:
    """Replace the file at ``path`` atomically. The caller holds the lock of the file."""
    content = as_toml(contexts).encode()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, content, alone=True)
    except OSError as error:
        raise ContextUnusableError(
            f"the contexts in {path} cannot be written: {os_reason(error)}", hint=_elsewhere(error)
        ) from None


def _elsewhere(error: OSError) -> str:
    return f"{writing_hint(error)}; or name another directory in XDG_CONFIG_HOME"


def as_toml(contexts: Contexts) -> str:
    """Return ``contexts`` as the text of a TOML file."""
    lines = [f"current = {_string(contexts.current)}"] if contexts.current else []
    for name, context in sorted(contexts.contexts.items()):
        lines += ["", f"[contexts.{_string(name)}]"]
        for field, value in msgspec.to_builtins(context).items():
            shown = _string(value) if isinstance(value, str) else f"[{_list(value)}]"
            lines.append(f"{field} = {shown}")
    return "\n".join(lines).lstrip("\n") + "\n"


def _list(values: list[str]) -> str:
    return ", ".join(map(_string, values))


def _string(text: str) -> str:
    """Return ``text`` as a TOML basic string.

    JSON's escapes are valid in TOML. TOML also escapes DEL.
    """
    try:
        return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")
    except UnicodeEncodeError:  # file names may hold bytes that are not UTF-8
        raise ContextUnusableError(
            f"{text!r} is not UTF-8, but each value of a context must be",
            hint="rename the file: use a name in UTF-8",
        ) from None


def _require_own(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ContextUnusableError(
            f"the contexts in {path} cannot be read: the path is not a regular file",
            hint="remove the path, or name another directory in XDG_CONFIG_HOME",
        )
    if status.st_uid not in {os.geteuid(), 0} or status.st_mode & 0o022:
        raise ContextUnusableError(
            f"other users can write {path}, but this file decides the trusted coordinator",
            hint=f"check the content of the file, then: chmod 600 {path}",
        )


def _contexts(path: Path, tree: dict[str, Any]) -> Contexts:
    tables = tree.get("contexts", {})
    current = tree.get("current", "")
    if tree.keys() - {"current", "contexts"} or not isinstance(tables, dict):
        raise ContextUnusableError(
            f"{path} must have only the field current and tables [contexts.NAME]"
        )
    if not isinstance(current, str) or (current and current not in tables):
        raise ContextUnusableError(
            f"{path} names the current context {current!r}, but does not contain this context"
        )
    return Contexts(current, {name: _context(path, name, tables[name]) for name in tables})


def _context(path: Path, name: str, table: object) -> SavedContext:
    """Return the context ``name`` from its TOML ``table`` in the file ``path``.

    Raises ``ContextUnusableError``, also for unknown fields: the author of a field may have meant a
    restriction.
    """
    where = f"the context {name!r} in {path}"
    if not NAMES.fullmatch(name) or not isinstance(table, dict):
        raise ContextUnusableError(
            f"{where} must be a table, with a name of letters, digits and . _ - (at most 64)"
        )
    known = {one.encode_name: one.name for one in msgspec.structs.fields(SavedContext)}
    kinds = get_type_hints(SavedContext)
    for field, value in table.items():
        if field not in known:
            raise ContextUnusableError(
                f"{where} has an unknown field {field!r}", hint=nearest(field, tuple(known))
            )
        listed = kinds[known[field]] is not str
        if not (_is_strings(value) if listed else isinstance(value, str)):
            raise ContextUnusableError(
                f"{where}: {field} must be a {'list of strings' if listed else 'string'}"
            )
        if "\0" in "".join(value):
            raise ContextUnusableError(f"{where}: {field} must not contain a zero byte")
    return msgspec.convert(table, SavedContext)


def _is_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
