"""`keyhouse context`: store the address, the identity and the user of a deployment under a name."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import click
import msgspec

from keyhouse.base.user_files import FileUnreadableError
from keyhouse.cli.options.context_option import known_contexts, locating_contexts
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
from keyhouse.cli.parser import Argument, AsJson, CommandGroup, Option, OptionGroup, WrongUsageError
from keyhouse.client import contexts


class ContextOptions(OptionGroup, frozen=True, kw_only=True):
    """The options of `keyhouse context add`: a deployment, its verification, and the user."""

    address: Annotated[
        str,
        Option("--address", metavar="HOST", help="address of the Client API: HOST or HOST:PORT"),
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
        Path | None,
        Option("--pkcs12", help="file with certificate and key; the context stores no password"),
    ] = None
    pkcs11_config: Annotated[
        Path | None,
        Option(
            "--pkcs11-config",
            help="the token with your key, for recoveries, and for you as a user unless --cert and"
            " --key or --pkcs12 name a user",
        ),
    ] = None
    pkcs11_key_id: TokenKeyId = ""
    pkcs11_key_label: TokenKeyLabel = ""
    memory: MemoryOption = ""

    def as_context(self) -> contexts.SavedContext:
        """Return the context to store. Its paths are absolute.

        Raises ``WrongUsageError`` for contradicting options, and ``ClientSetupError`` for an
        invalid value.
        """
        from keyhouse.client import parse_address

        if (self.key and not self.cert) or (self.cert and not (self.key or self.pkcs11_config)):
            raise WrongUsageError(
                "--cert or --key is missing: a user needs a certificate and its key",
                hint="pass both options, or --pkcs11-config for a key on a token",
            )
        if self.cert is not None and self.pkcs12 is not None:
            raise WrongUsageError(
                "the options name two users: --pkcs12 excludes --cert and --key",
                hint="pass only --pkcs12, or only --cert with --key",
            )
        if self.log_max_age is not None and self.witness_policy is None:
            raise WrongUsageError.no_effect("--log-max-age", "use it with --witness-policy")
        if self.address:
            parse_address(self.address)
        self._require_files()
        from keyhouse.client.trust_files import first_manifest_of

        first = first_manifest_of(self.first_manifest)
        memory_file = memory_of(self.memory) if self.memory else None
        memory = self.memory if memory_file is None else _absolute(memory_file.path)
        fields = msgspec.structs.asdict(self)
        manifests = {"manifests": "all"} if fields.pop("accepted_manifests_only") else {}
        return msgspec.convert(
            {name.replace("_", "-"): _stored_form(value) for name, value in fields.items() if value}
            | ({"memory": memory} if memory else {})
            | ({"first-manifest": first} if first else {})
            | manifests,
            contexts.SavedContext,
        )

    def _require_files(self) -> None:
        """Raise ``FileUnreadableError`` if the path of an option is a directory.

        A missing file is allowed: its owner may create the file later.
        """
        for value in msgspec.structs.asdict(self).values():
            if isinstance(value, Path) and value.is_dir():
                raise FileUnreadableError(
                    f"{value} is a directory, expected a file", hint="name a file in it"
                )


def _stored_form(value: object) -> str | list[str]:
    if isinstance(value, Path):
        return _absolute(value)
    return [*map(str, value)] if isinstance(value, list) else str(value)


def _absolute(path: Path) -> str:
    return os.path.abspath(path)  # noqa: PTH100 the reader follows links later


app = CommandGroup()

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
    """Store the options of a deployment under a name.

    The first context becomes the context in use.

    Example: keyhouse context add prod --address keyhouse.example.com:4433 --attestation
    attestation.json --pccs https://pccs.example.com:8081 --cert me.crt --key me.key

    A context stores the paths of files, not their contents: each command reads the files again. A
    context never stores a password.
    """
    if not contexts.NAMES.fullmatch(name) or name == "none":
        raise WrongUsageError(
            f"{name!r} cannot name a context",
            hint="choose up to 64 letters, digits, dots, dashes and underlines; the word none is"
            " reserved",
        )
    context = described.as_context()

    def step(known: contexts.Contexts) -> contexts.Contexts:
        if name in known.contexts and not replace:
            raise contexts.ContextUnusableError(
                f"the context {name!r} already exists", hint="pass --replace, or another name"
            )
        return contexts.Contexts(known.current or name, {**known.contexts, name: context})

    _show(name, context, current=_change(step).current == name, as_json=as_json)


@app.command("use")
def use(name: NameArgument, *, as_json: AsJson = False) -> None:
    """Use a context for commands without --context.

    After keyhouse context use none, commands use no context.

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
    """List the contexts; * marks the context in use.

    Example: keyhouse context list
    """
    known = _known()
    if as_json:
        show_json({"current": known.current or None, "contexts": known.contexts})
    elif known.contexts:
        rows = [
            (
                "*" if name == known.current else "",
                name,
                context.address,
                _trust(context),
                _who(context),
            )
            for name, context in sorted(known.contexts.items())
        ]
        show_table(("", "NAME", "ADDRESS", "TRUST", "USER"), rows)
    else:
        click.echo("there is no context; create a context with keyhouse context add", err=True)


@app.command("show")
def show(
    name: Annotated[
        str,
        Argument(
            metavar="NAME",
            help="name of the context (default: the context in use)",
            complete=known_contexts,
        ),
    ] = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Print all options in a context.

    Example: keyhouse context show prod
    """
    known = _known()
    name = name or known.current
    if not name:
        raise contexts.ContextUnusableError(
            "no context is in use", hint="pass a name from keyhouse context list"
        )
    _show(name, contexts.context_named(known, name), current=name == known.current, as_json=as_json)


@app.command("remove")
def remove(name: NameArgument, *, as_json: AsJson = False) -> None:
    """Remove a context, but not the files of its options.

    Example: keyhouse context remove prod
    """

    def step(known: contexts.Contexts) -> contexts.Contexts:
        contexts.context_named(known, name)
        rest = {each: context for each, context in known.contexts.items() if each != name}
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


def _show(name: str, context: contexts.SavedContext, *, current: bool, as_json: bool) -> None:
    fields = msgspec.to_builtins(context)
    rows = {"name": f"{name}  in use" if current else name}
    rows |= {
        field: value if isinstance(value, str) else ", ".join(value)
        for field, value in fields.items()
    }
    result = {"name": name, "current": current, "context": fields}
    show_result(result, rows, as_json=as_json)


def _trust(context: contexts.SavedContext) -> str:
    return "SIMULATION" if context.simulation_root else "hardware" if context.attestation else ""


def _who(context: contexts.SavedContext) -> str:
    return context.cert or context.pkcs12 or context.pkcs11_config
