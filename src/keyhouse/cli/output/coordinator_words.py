"""What a coordinator says, in the words of the commands.

Hints about the body of a request are for who writes one; who types commands writes none.
"""

import re
from typing import Final

_WHOLE: Final = {
    "take it from next of the answer before": "pass the value that was printed last",
    'send {"manifest": its JSON text in base64}': "pass a manifest file",
    'send {"sgxQuote": the quote in base64}': "pass a file with a quote",
    "send a JSON object": "pass a file with a JSON object",
    "send at least one secret by its name": "pass at least one secret",
}
_QUERY: Final = re.compile(r"name each secret: \S+\?s=one&s=two")


def in_commands(text: str) -> str:
    """Return ``text`` with what is said of a request replaced by what is passed to a command."""
    for said, meant in _WHOLE.items():
        text = text.replace(said, meant)
    return _QUERY.sub("keyhouse secret get NAME...", text)
