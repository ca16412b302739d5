"""Format errors for programs that read the JSON of a command."""

from typing import Any

from keyhouse.base.errors import KeyhouseError


def error_object(error: KeyhouseError) -> dict[str, Any]:
    """Return the object for ``error`` that a command prints with ``--json``.

    The member ``code`` is a stable word; ``message`` and ``hint`` are texts for people. The refusal
    of a coordinator also has ``reason``, a stable word, and ``fields``, the invalid fields.
    """
    found: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.hint:
        found["hint"] = error.hint
    for name in ("reason", "fields", "problems"):
        value = getattr(error, name, None)
        if value:
            found[name] = value
    return {"error": found}
