"""Which coordinator a command talks to and what it has to prove: options, one set for all."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from keyhouse.base.printable import printable
from keyhouse.cli.options.context_chosen import (
    CONNECTION,
    ContextOption,
    context_for,
    not_applied,
    not_empty,
    require_address,
)
from keyhouse.cli.options.memory import MemoryOption
from keyhouse.cli.options.pccs import PccsCaFile, PccsUrl
from keyhouse.cli.parser import Argument, Option, OptionGroup, WrongUsageError
from keyhouse.client.contexts import NamedContext

if TYPE_CHECKING:
    from keyhouse.client import Timeouts

HostArgument = Annotated[
    str,
    Argument(
        help="address of the Client API: HOST or HOST:PORT; a context may name it",
        metavar="HOST",
        check=not_empty,
    ),
]
AttestationFile = Annotated[
    Path | None,
    Option(
        "--attestation",
        "--era-config",
        help="the expected identity of the coordinator: an attestation file",
    ),
]
CollateralFile = Annotated[
    Path | None,
    Option(
        "--collateral",
        help="what verifies its quote: a bundle file (default with --simulation-root:"
        " collateral.json beside it)",
    ),
]
SimulationRoot = Annotated[
    Path | None,
    Option(
        "--simulation-root",
        help="trust quotes of a SIMULATED platform under this root certificate (PEM);"
        " proves nothing about hardware",
    ),
]
Statuses = Annotated[
    list[str],
    Option(
        "--accepted-tcb-statuses",
        metavar="LIST",
        help="TCB statuses that are accepted, instead of those in the attestation"
        " file: UpToDate,SWHardeningNeeded,...",
    ),
]
Advisories = Annotated[
    list[str],
    Option(
        "--accepted-advisories",
        metavar="LIST",
        help="Intel's advisories that are accepted, instead of those in the attestation file",
    ),
]
Nonce = Annotated[
    str,
    Option(
        "--nonce",
        metavar="BASE64",
        help="nonce that the quote must contain (default: 32 random bytes)",
    ),
]
SavedQuote = Annotated[
    str, Option("--save-sgx-quote", metavar="FILE", help="new file for the quote, as it came")
]
PinnedCertificate = Annotated[
    str,
    Option(
        "--coordinator-cert",
        metavar="FILE",
        help="certificates (PEM) that were kept before: the coordinator must have the same root;"
        " manifest set, and --keep-cert, write them here",
    ),
]
Insecure = Annotated[bool, Option("--insecure", "-i", hidden=True)]
Namespace = Annotated[str, Option("--namespace", "-n", hidden=True)]


TimeoutOption = Annotated[
    int | None,
    Option(
        "--timeout",
        metavar="SECONDS",
        section=CONNECTION,
        range=(1, 86_400),
        help="how long to wait for a connection, and for an answer (default: 10, and 60 in all)",
    ),
]


_CONTEXTS: Final = "keyhouse context add NAME keeps both; keyhouse context list shows what is kept"


WitnessPolicy = Annotated[
    Path | None,
    Option(
        "--witness-policy",
        help="witnesses (C2SP tlog-policy); a quorum of them must have seen its transparency log",
    ),
]
LogMaxAge = Annotated[
    int | None,
    Option(
        "--log-max-age",
        metavar="SECONDS",
        range=(1, 315_360_000),
        help="how long ago these may have seen it, by this machine's clock (default: 86400)",
    ),
]


FirstManifest = Annotated[
    str,
    Option(
        "--first-manifest",
        metavar="HEX",
        help="the manifest that the deployment must have begun with: its fingerprint, or its file",
    ),
]
AcceptedOnly = Annotated[
    bool,
    Option(
        "--accepted-manifests-only",
        help="refuse a coordinator under whose root a manifest was ever in force that neither"
        " --first-manifest names nor keyhouse trust accept has accepted",
    ),
]


class TrustOptions(OptionGroup, frozen=True, kw_only=True):
    """How a coordinator has to be verified before anything is sent to it."""

    section = "Trust"

    context: ContextOption = ""
    timeout: TimeoutOption = None
    attestation: AttestationFile = None
    simulation_root: SimulationRoot = None
    collateral: CollateralFile = None
    pccs: PccsUrl = ""
    pccs_ca: PccsCaFile = None
    memory: MemoryOption = ""
    accepted_tcb_statuses: Statuses = msgspec.field(default_factory=list)
    accepted_advisories: Advisories = msgspec.field(default_factory=list)
    witness_policy: WitnessPolicy = None
    log_max_age: LogMaxAge = None
    first_manifest: FirstManifest = ""
    accepted_manifests_only: AcceptedOnly = False
    nonce: Nonce = ""
    save_sgx_quote: SavedQuote = ""
    coordinator_cert: PinnedCertificate = ""
    insecure: Insecure = False
    namespace: Namespace = ""


class Target(TrustOptions, frozen=True, kw_only=True):
    """A coordinator, and what it has to prove."""

    host: HostArgument = ""

    def check(self, beside: Iterable[OptionGroup]) -> None:
        """Raise ``WrongUsageError`` if no coordinator or no identity is named."""
        del beside
        self.settled()

    @classmethod
    def at(cls, host: str, trusting: TrustOptions) -> "Target":
        """Return the coordinator at ``host``, "" for that of the context, to be trusted so."""
        return cls(host=host, **msgspec.structs.asdict(trusting))

    def timeouts(self) -> "Timeouts":
        """Return how long to wait for each call."""
        from keyhouse.client import Timeouts

        if self.timeout is None:
            return Timeouts()
        return Timeouts(self.timeout, self.timeout, self.timeout)

    def settled(self, *, required: bool = True) -> "Target":
        """Return the target, completed by the context; options have precedence.

        Raises ``WrongUsageError`` if then no coordinator or no identity is named, and ``required``.
        """
        self._refuse_unsupported()
        named = context_for(self.context, self.host)
        found = self if named is None else _filled(self, named)
        if not required:
            return found
        if not found.host:
            raise WrongUsageError("no coordinator: pass HOST or --context", hint=_CONTEXTS)
        if found.attestation is None:
            raise WrongUsageError(
                "no expected identity: pass --attestation or --context",
                hint=not_applied(self.context, self.host) or _CONTEXTS,
            )
        return found

    def _refuse_unsupported(self) -> None:
        if self.insecure:
            raise WrongUsageError(
                "there is no --insecure: the coordinator is always verified first",
                hint="for a simulated one pass --simulation-root",
            )
        if self.namespace:
            raise WrongUsageError(
                "there is no --namespace: keyhouse does not ask Kubernetes",
                hint="pass the coordinator's address as HOST",
            )


def host_and_word(words: list[str], usage: str) -> tuple[str, str]:
    """Return an address, "" for that of the context, and the word after it: ``HOST WORD``.

    Raises ``WrongUsageError`` with ``usage`` as its hint.
    """
    *hosts, word = words
    if len(hosts) > 1:
        raise WrongUsageError("too many words", hint=usage)
    return "".join(hosts), word


def _filled(typed: Target, named: NamedContext) -> Target:
    """Return ``typed`` with the values of a context. What is trusted comes from one place.

    A simulated vendor's root in a context must not weaken an identity given by option: an option
    for one of them means that neither is taken from the context.
    """
    require_address(named, typed.host)
    context, own = named.context, typed.attestation or typed.simulation_root
    found = msgspec.structs.replace(
        typed,
        host=typed.host or context.address,
        memory=typed.memory or context.memory,
        # Witnesses only demand more: no identity that is typed takes that away.
        witness_policy=typed.witness_policy or _path(context.witness_policy),
        log_max_age=typed.log_max_age or context.log_age,
        # Neither do the manifests that it has to have had.
        first_manifest=typed.first_manifest or context.first_manifest,
        accepted_manifests_only=typed.accepted_manifests_only or bool(context.judged_manifests),
    )
    if not own:
        found = msgspec.structs.replace(
            found,
            attestation=_path(context.attestation),
            simulation_root=_path(context.simulation_root),
            accepted_tcb_statuses=typed.accepted_tcb_statuses or [*context.accepted_tcb_statuses],
            accepted_advisories=typed.accepted_advisories or [*context.accepted_advisories],
        )
    fetched = typed.collateral or typed.pccs or typed.pccs_ca
    if not fetched and found.simulation_root == _path(context.simulation_root):
        found = msgspec.structs.replace(
            found,
            collateral=_path(context.collateral),
            pccs=context.pccs,
            pccs_ca=_path(context.pccs_ca),
        )
    return found


def context_notice(typed: Target) -> str:
    """Return one short line on the context that completes ``typed``; "" if there is none."""
    named, found = context_for(typed.context, typed.host), typed.settled()
    if named is None or found == typed:
        return ""
    simulated = ", SIMULATED" if found.simulation_root is not None else ""
    return printable(f"context: {named.name} ({found.host}{simulated})") + "\n"


def _path(text: str) -> Path | None:
    return Path(text) if text else None
