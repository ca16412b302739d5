"""Options for the coordinator of a command and its verification, the same for all commands."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from keyhouse.base.printable import printable
from keyhouse.cli.options.context_option import (
    CONNECTION,
    ContextOption,
    context_for,
    not_applied,
    not_empty,
    require_address,
)
from keyhouse.cli.options.memory import MemoryOption
from keyhouse.cli.options.no_coordinator import no_coordinator
from keyhouse.cli.options.pccs import PccsCaFile, PccsUrl
from keyhouse.cli.parser import Argument, Option, OptionGroup, WrongUsageError
from keyhouse.client.contexts import NamedContext

if TYPE_CHECKING:
    from keyhouse.client import Timeouts

HostArgument = Annotated[
    str,
    Argument(
        help="address of the Client API: name, name:port, 10.0.0.7:4433 or [::1]:4433 (default"
        " port: 4433); optional with a context that has an address",
        metavar="HOST",
        check=not_empty,
    ),
]
AttestationFile = Annotated[
    Path | None,
    Option(
        "--attestation",
        "--era-config",
        help="the expected identity of the coordinator: JSON with UniqueID (MRENCLAVE), or SignerID"
        " (MRSIGNER), ProductID and SecurityVersion; optionally AcceptedTCBStatuses,"
        " AcceptedAdvisories, Nonce",
    ),
]
CollateralFile = Annotated[
    Path | None,
    Option(
        "--collateral",
        help="bundle file to verify the quote (default with --simulation-root: collateral.json in"
        " the same folder)",
    ),
]
SimulationRoot = Annotated[
    Path | None,
    Option(
        "--simulation-root",
        help="trust quotes of a SIMULATED platform under this root certificate (PEM);"
        " this proves nothing about hardware (default: Intel's root, which is pinned)",
    ),
]
Statuses = Annotated[
    list[str],
    Option(
        "--accepted-tcb-statuses",
        metavar="LIST",
        help="accepted TCB statuses, instead of the list in the attestation file:"
        " UpToDate,SWHardeningNeeded,... (with commas, or several times)",
    ),
]
Advisories = Annotated[
    list[str],
    Option(
        "--accepted-advisories",
        metavar="LIST",
        help="accepted advisories of Intel, instead of the list in the attestation file (with"
        " commas, or several times)",
    ),
]
Nonce = Annotated[
    str,
    Option(
        "--nonce",
        metavar="BASE64",
        help="the nonce of the requested quote (default: 32 new random bytes)",
    ),
]
SavedQuote = Annotated[
    str, Option("--save-sgx-quote", metavar="FILE", help="new file for the received quote")
]
PinnedCertificate = Annotated[
    str,
    Option(
        "--coordinator-cert",
        metavar="FILE",
        help="stored certificates (PEM): the coordinator must have the same root; manifest set,"
        " manifest verify and manifest get --keep-cert write this file",
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
        help="maximum time for a connection, and for each answer (default: 10 for a connection, and"
        " 60 in total)",
    ),
]


_CONTEXTS: Final = (
    "store address and identity with keyhouse context add NAME; keyhouse context list lists the"
    " contexts"
)


WitnessPolicy = Annotated[
    Path | None,
    Option(
        "--witness-policy",
        help="policy file with witnesses (C2SP tlog-policy): a quorum of the witnesses must have"
        " cosigned the coordinator's transparency log. A coordinator that enforces no manifest"
        " has no log",
    ),
]
LogMaxAge = Annotated[
    int | None,
    Option(
        "--log-max-age",
        metavar="SECONDS",
        range=(1, 315_360_000),
        help="maximum age of the cosignatures for --witness-policy, by this machine's clock"
        " (default: 86400)",
    ),
]


FirstManifest = Annotated[
    str,
    Option(
        "--first-manifest",
        metavar="HEX",
        help="the first manifest of the deployment, as its fingerprint or its file: refuse a"
        " deployment with another first manifest",
    ),
]
AcceptedOnly = Annotated[
    bool,
    Option(
        "--accepted-manifests-only",
        help="refuse the coordinator if any manifest was ever in force that you have not accepted:"
        " by --first-manifest, or by keyhouse trust accept",
    ),
]


class TrustOptions(OptionGroup, frozen=True, kw_only=True):
    """The requirements for a coordinator before a command sends anything to it."""

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
    """A coordinator's address, and the requirements of the user for its verification."""

    host: HostArgument = ""

    def check(self, beside: Iterable[OptionGroup]) -> None:
        """Raise ``WrongUsageError`` if no address or no expected identity is known.

        ``beside``, the option groups of the command, has no effect.
        """
        del beside
        self.resolve()

    @classmethod
    def at(cls, host: str, trusting: TrustOptions) -> "Target":
        """Return the target at the address ``host`` with the requirements of ``trusting``.

        "" for ``host`` selects the coordinator of the context.
        """
        return cls(host=host, **msgspec.structs.asdict(trusting))

    def timeouts(self) -> "Timeouts":
        """Return the timeouts for each call to the coordinator."""
        from keyhouse.client import Timeouts

        if self.timeout is None:
            return Timeouts()
        return Timeouts(self.timeout, self.timeout, self.timeout)

    def resolve(self, *, required: bool = True) -> "Target":
        """Return this target with missing options from the context.

        With ``required``, raises ``WrongUsageError`` if the result has no address or no expected
        identity.
        """
        self.refuse_unsupported()
        context = context_for(self.context, self.host)
        completed = self if context is None else _complete(self, context)
        if not required:
            return completed
        if not completed.host:
            raise no_coordinator(self.context)
        if completed.attestation is None:
            raise WrongUsageError(
                "the command has no expected identity: pass --attestation or --context",
                hint=not_applied(self.context, self.host) or _CONTEXTS,
            )
        return completed

    def refuse_unsupported(self) -> None:
        """Raise ``WrongUsageError`` for ``--insecure`` and ``--namespace``.

        Users of MarbleRun's tool know these options, but Keyhouse does not have them.
        """
        if self.insecure:
            raise WrongUsageError(
                "there is no --insecure: commands always verify the coordinator first",
                hint="omit --insecure; for a simulated coordinator, pass --simulation-root",
            )
        if self.namespace:
            raise WrongUsageError(
                "there is no --namespace: only keyhouse kube connects to Kubernetes",
                hint="omit --namespace, and pass the coordinator's address as HOST",
            )


def host_and_word(words: list[str], usage: str) -> tuple[str, str]:
    """Return address and word from the arguments ``words``, which are ``HOST WORD`` or ``WORD``.

    Without HOST, the address is "", which means the context's address. Raises ``WrongUsageError``
    with ``usage`` as its hint.
    """
    *hosts, word = words
    if len(hosts) > 1:
        raise WrongUsageError(
            f"the command line has {len(words)} words, expected at most 2", hint=f"use: {usage}"
        )
    return "".join(hosts), word


def _complete(typed: Target, context: NamedContext) -> Target:
    """Return ``typed``, the options on the command line, with missing values from ``context``.

    If an option names the expected identity or a simulated root, the context supplies neither the
    identity nor the root. So a simulated root in the context cannot weaken an identity from an
    option.
    """
    require_address(context, typed.host)
    values, own = context.context, typed.attestation or typed.simulation_root
    completed = msgspec.structs.replace(
        typed,
        host=typed.host or values.address,
        memory=typed.memory or values.memory,
        # Requirements for witnesses are additional: an identity from an option does not remove
        # them.
        witness_policy=typed.witness_policy or _path(values.witness_policy),
        log_max_age=typed.log_max_age or values.log_age,
        # The same holds for the requirements for manifests.
        first_manifest=typed.first_manifest or values.first_manifest,
        accepted_manifests_only=typed.accepted_manifests_only or bool(values.judged_manifests),
    )
    if not own:
        completed = msgspec.structs.replace(
            completed,
            attestation=_path(values.attestation),
            simulation_root=_path(values.simulation_root),
            accepted_tcb_statuses=typed.accepted_tcb_statuses or [*values.accepted_tcb_statuses],
            accepted_advisories=typed.accepted_advisories or [*values.accepted_advisories],
        )
    fetched = typed.collateral or typed.pccs or typed.pccs_ca
    if not fetched and completed.simulation_root == _path(values.simulation_root):
        completed = msgspec.structs.replace(
            completed,
            collateral=_path(values.collateral),
            pccs=values.pccs,
            pccs_ca=_path(values.pccs_ca),
        )
    return completed


def context_notice(typed: Target) -> str:
    """Return a line that names the context of a command, or "" if the context has no effect.

    ``typed`` has the options on the command line. A context has an effect if it supplies a missing
    option.
    """
    context, resolved = context_for(typed.context, typed.host), typed.resolve()
    if context is None or resolved == typed:
        return ""
    simulated = ", SIMULATED" if resolved.simulation_root is not None else ""
    return printable(f"context: {context.name} ({resolved.host}{simulated})") + "\n"


def _path(text: str) -> Path | None:
    return Path(text) if text else None
