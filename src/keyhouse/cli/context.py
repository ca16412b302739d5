"""`keyhouse context`: name a deployment once, instead of typing its address and identity."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import click
import msgspec

from keyhouse.cli.options.context_chosen import known_contexts, locating_contexts
from keyhouse.cli.options.memory import MemoryOption, memory_of
from keyhouse.cli.options.pccs import PccsCaFile, PccsUrl
from keyhouse.cli.options.target import (
    AcceptedOnly,
    Advisories,
    CollateralFile,
    FirstManifest,
    LogMaxAge,
    SimulationRoot,
    Statuses,
    WitnessPolicy,
)
from keyhouse.cli.options.token import TokenKeyId, TokenKeyLabel
from keyhouse.cli.options.user import UserCertificate, UserKey
from keyhouse.cli.output.show import show_json, show_result, show_table
from keyhouse.cli.parser import Argument, AsJson, Group, Option, OptionGroup, WrongUsageError
from keyhouse.client import contexts


class ContextOptions(OptionGroup, frozen=True, kw_only=True):
    """A deployment, as it was typed."""

    address: Annotated[
        str, Option("--address", metavar="HOST", help="its Client API: HOST or HOST:PORT")
    ] = ""
    attestation: Annotated[
        Path | None,
        Option("--attestation", help="the expected identity of the coordinator: attestation file"),
    ] = None
    simulation_root: SimulationRoot = None
    accepted_tcb_statuses: Statuses = msgspec.field(default_factory=list)
    accepted_advisories: Advisories = msgspec.field(default_factory=list)
    collateral: CollateralFile = None
    pccs: PccsUrl = ""
    pccs_ca: PccsCaFile = None
    witness_policy: WitnessPolicy = None
    log_max_age: LogMaxAge = None
    first_manifest: FirstManifest = ""
    accepted_manifests_only: AcceptedOnly = False
    cert: UserCertificate = None
    key: UserKey = None
    pkcs12: Annotated[
        Path | None, Option("--pkcs12", help="both in one file; its password is not kept")
    ] = None
    pkcs11_config: Annotated[
        Path | None,
        Option(
            "--pkcs11-config",
            help="the token with your key: as a user if no other is named, and for recoveries",
        ),
    ] = None
    pkcs11_key_id: TokenKeyId = ""
    pkcs11_key_label: TokenKeyLabel = ""
    memory: MemoryOption = ""

    def as_context(self) -> contexts.Context:
        """Return the context, its paths absolute.

        Raises ``WrongUsageError`` or ``ClientSetupError``.
        """
        from keyhouse.client import parse_address

        if (self.key and not self.cert) or (self.cert and not (self.key or self.pkcs11_config)):
            raise WrongUsageError(
                "--cert and --key go together", hint="or --pkcs11-config, for a token"
            )
        if self.cert is not None and self.pkcs12 is not None:
            raise WrongUsageError("two users", hint="--pkcs12, or --cert with --key")
        if self.log_max_age is not None and self.witness_policy is None:
            raise WrongUsageError.no_effect("--log-max-age", "use it with --witness-policy")
        if self.address:
            parse_address(self.address)
        from keyhouse.client.trust_files import first_manifest_of

        first = first_manifest_of(self.first_manifest)
        chosen = memory_of(self.memory) if self.memory else None
        memory = self.memory if chosen is None else _absolute(chosen.path)
        fields = msgspec.structs.asdict(self)
        manifests = {"manifests": "all"} if fields.pop("accepted_manifests_only") else {}
        return msgspec.convert(
            {name.replace("_", "-"): _kept(value) for name, value in fields.items() if value}
            | ({"memory": memory} if memory else {})
            | ({"first-manifest": first} if first else {})
            | manifests,
            contexts.Context,
        )


def _kept(value: object) -> str | list[str]:
    if isinstance(value, Path):
        return _absolute(value)
    return [*map(str, value)] if isinstance(value, list) else str(value)


def _absolute(path: Path) -> str:
    return os.path.abspath(path)  # noqa: PTH100 links are followed when it is read, not now


app = Group()

NameArgument = Annotated[
    str, Argument(metavar="NAME", help="name of the context", complete=known_contexts)
]


@app.command("add")
def add(
    name: NameArgument,
    described: ContextOptions,
    *,
    replace: Annotated[bool, Option("--replace", help="replace NAME if it exists")] = False,
    as_json: AsJson = False,
) -> None:
    """Keep a deployment under a name.

    The first one is in use at once.

    Example: keyhouse context add prod --address keyhouse.example.com:4433
    --attestation attestation.json --pccs https://pccs.example.com:8081 --cert me.crt --key me.key

    Files are named, not copied: what they hold counts when a command runs. No password is kept.
    """
    if not contexts.NAMES.fullmatch(name) or name == "none":
        raise WrongUsageError(
            f"{name!r} cannot name a context",
            hint="letters, digits, dots, dashes and underlines; up to 64; not none",
        )
    made = described.as_context()

    def step(known: contexts.Contexts) -> contexts.Contexts:
        if name in known.contexts and not replace:
            raise contexts.ContextUnusableError(
                f"there is a context {name!r}", hint="--replace it, or name another"
            )
        return contexts.Contexts(known.current or name, {**known.contexts, name: made})

    _show(name, made, current=_change(step).current == name, as_json=as_json)


@app.command("use")
def use(name: NameArgument, *, as_json: AsJson = False) -> None:
    """Use this context for commands without --context.

    The name none: use none.

    Example: keyhouse context use prod
    """

    def step(known: contexts.Contexts) -> contexts.Contexts:
        if name != "none":
            contexts.context_named(known, name)
        return msgspec.structs.replace(known, current="" if name == "none" else name)

    _change(step)
    current = None if name == "none" else name
    show_result({"current": current}, {"in use": name}, as_json=as_json)


@app.command("list")
def list_(*, as_json: AsJson = False) -> None:
    """List the contexts; * marks the one in use.

    Example: keyhouse context list
    """
    known = _known()
    if as_json:
        show_json({"current": known.current or None, "contexts": known.contexts})
    elif known.contexts:
        rows = [
            ("*" if name == known.current else "", name, one.address, _trust(one), _who(one))
            for name, one in sorted(known.contexts.items())
        ]
        show_table(("", "NAME", "ADDRESS", "TRUST", "USER"), rows)
    else:
        click.echo("there is no context; keyhouse context add makes one", err=True)


@app.command("show")
def show(
    name: Annotated[
        str,
        Argument(
            metavar="NAME", help="name of the context; the one in use", complete=known_contexts
        ),
    ] = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Print everything in a context.

    Example: keyhouse context show prod
    """
    known = _known()
    name = name or known.current
    if not name:
        raise contexts.ContextUnusableError(
            "no context is in use", hint="name one; keyhouse context list"
        )
    _show(name, contexts.context_named(known, name), current=name == known.current, as_json=as_json)


@app.command("remove")
def remove(name: NameArgument, *, as_json: AsJson = False) -> None:
    """Forget a context. The files that it names stay.

    Example: keyhouse context remove prod
    """

    def step(known: contexts.Contexts) -> contexts.Contexts:
        contexts.context_named(known, name)
        rest = {each: one for each, one in known.contexts.items() if each != name}
        return contexts.Contexts("" if known.current == name else known.current, rest)

    _change(step)
    show_result({"removed": name}, {"removed": name}, as_json=as_json)


def _known() -> contexts.Contexts:
    with locating_contexts():
        return contexts.read(contexts.contexts_path())


def _change(step: Callable[[contexts.Contexts], contexts.Contexts]) -> contexts.Contexts:
    path = contexts.own_contexts_path()
    with locating_contexts():
        return contexts.change(path, step)


def _show(name: str, context: contexts.Context, *, current: bool, as_json: bool) -> None:
    fields = msgspec.to_builtins(context)
    rows = {"name": f"{name}  in use" if current else name}
    rows |= {
        field: value if isinstance(value, str) else ", ".join(value)
        for field, value in fields.items()
    }
    found = {"name": name, "current": current, "context": fields}
    show_result(found, rows, as_json=as_json)


def _trust(context: contexts.Context) -> str:
    return "SIMULATION" if context.simulation_root else "hardware" if context.attestation else ""


def _who(context: contexts.Context) -> str:
    return context.cert or context.pkcs12 or context.pkcs11_config
