"""What a coordinator says, in the words of the commands.

Its hints are for programs and name routes of the HTTP interface; who types commands knows none.
"""

import re
from typing import Final

_COMMANDS: Final = {
    "GET /api/v2/manifest": "keyhouse manifest get",
    "GET /api/v2/recover/public-key": "keyhouse recover public-key",
    "GET /api/v2/status": "keyhouse status",
    "GET /api/v2/update-manifest": "keyhouse manifest update get",
    "POST /api/v2/manifest": "keyhouse manifest set",
    "POST /api/v2/plan": "keyhouse manifest plan",
    "POST /api/v2/recover": "keyhouse recover",
    "POST /api/v2/secrets": "keyhouse secret set",
    "POST /api/v2/update": "keyhouse manifest update apply",
}
_WHOLE: Final = {
    "take it from next of the answer before": "pass the value that was printed last",
    'send {"manifest": its JSON text in base64}': "pass a manifest file",
    'send {"sgxQuote": the quote in base64}': "pass a file with a quote",
    "send a JSON object": "pass a file with a JSON object",
    "send at least one secret by its name": "pass at least one secret",
    "send the digest that POST /api/v2/plan has answered": "--expect-plan with the digest that"
    " keyhouse manifest plan prints",
    "read it, POST /api/v2/plan or keyhouse manifest plan, and send its digest": "review it"
    " (keyhouse manifest plan), and pass its digest as --expect-plan",
}
_ROUTE: Final = re.compile(r"(?:GET|POST) /api/v2/[a-z-]+(?:/[a-z-]+)*")
_QUERY: Final = re.compile(r"name each secret: \S+\?s=one&s=two")


def in_commands(text: str) -> str:
    """Return ``text`` with each route replaced by the command that uses it."""
    for said, meant in _WHOLE.items():
        text = text.replace(said, meant)
    text = _QUERY.sub("keyhouse secret get NAME...", text)
    return _ROUTE.sub(lambda found: _COMMANDS.get(found[0], found[0]), text)
