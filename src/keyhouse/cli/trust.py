"""`keyhouse trust show | accept | forget`: the remembered coordinators."""

import hashlib
from typing import TYPE_CHECKING, Annotated

import click

from keyhouse.base.errors import NotFoundError
from keyhouse.cli.options.connect import verify_target
from keyhouse.cli.options.memory import MemoryOption, memory_of
from keyhouse.cli.options.target import Target
from keyhouse.cli.output.root_line import changes_since
from keyhouse.cli.output.show import show_json, show_result, show_rows
from keyhouse.cli.parser import Argument, AsJson, CommandGroup

if TYPE_CHECKING:
    from keyhouse.client import Memories, StateMemory

app = CommandGroup()


@app.command("show")
def show(memory: MemoryOption = "", *, as_json: AsJson = False) -> None:
    """Print the remembered coordinators.

    For each coordinator, the output has its address, the SHA-256 of its root, its newest state, and
    the newest head of its log.

    Example: keyhouse trust show
    """
    memories = _required(memory).read()
    if as_json:
        show_json({"coordinators": [_object(memories, where) for where in sorted(memories.roots)]})
        return
    if not memories.roots:
        click.echo("no coordinator is remembered; pass --memory FILE for another memory", err=True)
    for where in sorted(memories.roots):
        show_rows({name: value for name, value in _object(memories, where).items() if value})


@app.command("accept")
def accept(target: Target, *, as_json: AsJson = False) -> None:
    """Accept every manifest that was ever in force at HOST.

    The command prints each newly accepted manifest, and each person or code that such a manifest
    gave access to the root key. Afterwards, commands with --accepted-manifests-only accept a
    coordinator with these manifests.

    Example: keyhouse trust accept localhost:4433 --attestation attestation.json
    """
    from keyhouse.client import Coordinator
    from keyhouse.client.memory.states import Watch

    memory = _required(target.resolve().memory)
    proven = verify_target(target, accepted_only=False)
    line = proven.line
    if line is None:
        raise NotFoundError(
            "the coordinator has no line of manifests to accept",
            hint="read the reason in the output of keyhouse status",
        )
    known_line = memory.read().lines.get(hashlib.sha256(proven.root_der).hexdigest())
    before = 0 if known_line is None else known_line.accepted
    with Coordinator(proven, timeout=target.timeouts()) as coordinator:
        changes = list(changes_since(coordinator, line, before, coordinator.manifest().manifest))
    new = [entry.manifest for number, entry in line.effective() if number >= before]
    Watch(memory, proven.address, proven.root_der).remember_line(line, accepted=True)
    rows = {"accepted": ", ".join(new) or "nothing new", "new": "; ".join(changes)}
    result = {"accepted": new, "new": changes}
    show_result(result, {name: text for name, text in rows.items() if text}, as_json=as_json)


@app.command("forget")
def forget(
    host: Annotated[
        str, Argument(metavar="HOST", help="address of the coordinator: HOST or HOST:PORT")
    ],
    memory: MemoryOption = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Forget the deployment at HOST.

    Afterwards, commands accept the next verified deployment at this address.

    Example: keyhouse trust forget localhost:4433

    Use this command after a new setup, or after a restore of an older copy.
    """
    from keyhouse.client import forgotten, parse_address

    address = parse_address(host)
    roots: list[str] = []

    def step(memories: "Memories") -> "Memories":
        rest = forgotten(memories, address)
        roots.extend(sorted(memories.roots.keys() - rest.roots.keys()))
        return rest

    _required(memory).change(step)
    if not roots:
        raise NotFoundError(
            f"the memory has no entry for {address}",
            hint="list the remembered addresses: keyhouse trust show",
        )
    show_result({"forgotten": roots}, {"forgotten": ", ".join(roots)}, as_json=as_json)


def _required(option: str) -> "StateMemory":
    memory = memory_of(option)
    if memory is None:
        raise NotFoundError(
            "no file with remembered deployments was found", hint="pass the file: --memory FILE"
        )
    return memory


def _object(memories: "Memories", where: str) -> dict[str, str]:
    root = memories.roots[where]
    heads = memories.heads.get(root, ())
    log = str(heads[-1]) if heads else ""
    return {"address": where, "root": root, "state": str(memories.highest(root)), "log": log}
