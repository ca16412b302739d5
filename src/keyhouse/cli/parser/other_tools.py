"""Commands of Vault, kubectl, step and MarbleRun's tool, with the commands of Keyhouse.

A user of these tools types their words first. A similar spelling would suggest a wrong command:
``uninstall`` resembles ``unseal``.
"""

import re
from collections.abc import Mapping
from typing import Final

_FILE: Final = re.compile(r"^[\w./-]+\.(?:json|ya?ml)$", re.ASCII)
_HELP: Final = "keyhouse --help lists the commands; keyhouse COMMAND --help explains a command"
_LAUNCH: Final = "workloads join with keyhouse run --type TYPE -- PROGRAM"
_UNSEAL: Final = (
    "a coordinator unseals its own state; after the loss of its machine, use keyhouse recover sign"
    " and keyhouse recover upload"
)
_USERS: Final = (
    "there is no login: pass --cert and --key, or store both with keyhouse context add NAME"
)
_READ: Final = "use keyhouse secret get NAME, or keyhouse manifest get"
_WRITE: Final = "use keyhouse secret set NAME --value -"
_LIST: Final = "use keyhouse secret list, or keyhouse workload list"
_POLICY: Final = "users and permissions are in the manifest: keyhouse manifest get"
_APPLY: Final = (
    "use keyhouse manifest set for the first manifest, then keyhouse manifest update apply"
)
_KUBERNETES: Final = "use keyhouse kube COMMAND --namespace NAME"
_DELETE: Final = "secrets are in the manifest: keyhouse manifest update apply"
_EDIT: Final = "use keyhouse manifest get -o FILE, then keyhouse manifest update apply FILE"

_HINTS: Final[Mapping[str, Mapping[str, str]]] = {
    "keyhouse": {
        # Vault
        "auth": _USERS,
        "delete": _DELETE,
        "init": "use keyhouse dev for a simulation, or keyhouse serve",
        "kv": _READ,
        "list": _LIST,
        "login": _USERS,
        "operator": _UNSEAL,
        "policy": _POLICY,
        "put": _WRITE,
        "read": _READ,
        "seal": "the state is always sealed; a stopped coordinator reveals nothing",
        "server": "use keyhouse dev for a simulation, or keyhouse serve",
        "token": _POLICY,
        "unseal": _UNSEAL,
        "write": _WRITE,
        # kubectl and terraform
        "apply": _APPLY,
        "config": "use keyhouse context list, and keyhouse context use NAME",
        "create": _APPLY,
        "describe": "use keyhouse status, and keyhouse manifest get",
        "diff": "use keyhouse manifest diff, or keyhouse manifest plan",
        "edit": _EDIT,
        "exec": _LAUNCH,
        "get": f"{_READ}; keyhouse secret list lists all secrets",
        "help": _HELP,
        "logs": "use keyhouse manifest log, or keyhouse watch",
        "plan": "use keyhouse manifest plan",
        # step
        "ca": "use keyhouse certificate root",
        # MarbleRun's tool
        "gramine-prepare": _LAUNCH,
        "namespace": _KUBERNETES,
    },
    "keyhouse manifest": {
        "apply": _APPLY,
        "edit": _EDIT,
        "help": _HELP,
        "show": "use keyhouse manifest get",
        "validate": "use keyhouse manifest check",
    },
    "keyhouse secret": {
        "delete": _DELETE,
        "help": _HELP,
        "put": _WRITE,
        "read": "use keyhouse secret get NAME",
        "show": "use keyhouse secret get NAME --show",
        "write": _WRITE,
    },
}
"""Hints by the path of the group, and by the unknown word in the group."""


def hint_for(group: str, word: str) -> str:
    """Return the hint for the unknown command ``word`` of ``group``; "" without a hint.

    ``group`` is the path of a group of commands, such as ``keyhouse secret``.
    """
    if group == "keyhouse manifest update" and _FILE.search(word):
        return f"use keyhouse manifest update apply {word}"
    return _HINTS.get(group, {}).get(word, "")


def hints() -> list[tuple[str, str, str]]:
    """Return all hints: tuples of command group, word of a different tool, and hint.

    A hint names the commands of Keyhouse for the word.
    """
    return [(group, word, hint) for group, words in _HINTS.items() for word, hint in words.items()]
