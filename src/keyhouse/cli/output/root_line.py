"""The checks of a verification, and the line of a root, as rows and as JSON.

The line of a root is the sequence of the manifests that were in force under a root certificate.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from keyhouse.base.errors import InvalidError, KeyhouseError

if TYPE_CHECKING:
    from keyhouse.client import Coordinator, TrustCheck, TrustedCoordinator
    from keyhouse.transparency.line import RootLine
    from keyhouse.views.line import RootKeyAccess


def checks_json(proven: "TrustedCoordinator") -> list[dict[str, Any]]:
    """Return each check of the verified coordinator ``proven`` as an object for JSON."""
    return [
        {"name": str(each.name), "done": each.done, "text": each.text} for each in proven.checks
    ]


def check_rows(proven: "TrustedCoordinator") -> dict[str, str]:
    """Return a row for people for each check of the verified coordinator ``proven``."""
    return {f"check {each.name}": check_text(each) for each in proven.checks}


def check_text(check: "TrustCheck") -> str:
    """Return ``done`` or ``not done``, and the text of ``check``, as words for people."""
    return f"{'done' if check.done else 'not done'}  {check.text}"


def line_rows(line: "RootLine", access: "RootKeyAccess | None") -> dict[str, str]:
    """Return rows about the line of a root: the first manifest and the number of later manifests.

    ``access`` adds rows about the people and code with access to the root key; None adds no rows.
    """
    from keyhouse.transparency.line import Adopted

    since = len(line.manifests) - 1
    # An adopted root has no evidence of its first manifest.
    word = "adopted under" if isinstance(line.first, Adopted) else "first manifest"
    return {
        word: line.first.manifest,
        "since then": f"{since} manifest{'' if since == 1 else 's'}",
        **(
            {"holders": access.holders_text, "other code": access.code_text}
            if access is not None
            else {}
        ),
    }


def access_periods(raw: bytes) -> "RootKeyAccess | None":
    """Return the people and code that can learn the root key under the manifest ``raw``.

    None means that this version cannot read the manifest.
    """
    from keyhouse.manifest import decode
    from keyhouse.views.line import root_key_access

    try:
        return root_key_access(decode(raw))
    except InvalidError:
        return None


def changes_since(
    coordinator: "Coordinator", line: "RootLine", before: int, in_force: bytes
) -> Iterator[str]:
    """Yield a sentence for each person or code that a new manifest gave access to the root key.

    New manifests begin at the entry with the number ``before`` in ``line``. ``in_force`` is the
    last manifest in the line, and ``coordinator`` serves the earlier manifests. If a manifest
    cannot be compared, a sentence states this.
    """
    from keyhouse.views.line import additions

    known: RootKeyAccess | None = None
    entries = list(line.effective())
    for place, (number, entry) in enumerate(entries):
        is_last, is_new = place == len(entries) - 1, number >= before
        is_base = not is_new and (is_last or entries[place + 1][0] >= before)
        if not (is_new or is_base):
            continue
        raw = in_force if is_last else _object(coordinator, entry.manifest)
        access = access_periods(raw) if raw is not None else None
        if is_new and place:
            if known is None or access is None:
                yield f"{entry.manifest}  no comparison: a manifest is unpublished or unreadable"
            else:
                yield from (f"{entry.manifest}  {text}" for text in additions(known, access))
        known = access


def _object(coordinator: "Coordinator", manifest: str) -> bytes | None:
    """Return the bytes of an earlier manifest from the log; None if the log does not have them.

    ``manifest`` is the fingerprint of the manifest (hex).
    """
    import hashlib

    try:
        raw = coordinator.log_part(f"object/{manifest}")
    except KeyhouseError:
        return None
    return raw if hashlib.sha256(raw).hexdigest() == manifest else None
