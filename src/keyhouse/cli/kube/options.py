"""Options of all commands of `keyhouse kube`: the cluster, the release, and the trust."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

import msgspec

from keyhouse.base.errors import RefusedError
from keyhouse.base.user_files import read_file
from keyhouse.cli.kube.api.kubeconfig import known_contexts
from keyhouse.cli.kube.rendering.chart import Release
from keyhouse.cli.kube.rendering.functions import merge
from keyhouse.cli.options.memory import MemoryOption
from keyhouse.cli.options.pccs import PccsCaFile, PccsUrl
from keyhouse.cli.options.target import (
    AttestationFile,
    CollateralFile,
    FirstManifest,
    Insecure,
    SimulationRoot,
    Target,
    TimeoutOption,
)
from keyhouse.cli.parser import Option, OptionGroup
from keyhouse.cli.parser.usage import WrongUsageError
from keyhouse.manifest.source.yaml_text import read_yaml

_NAMESPACE: Final = "keyhouse"


class ClusterOptions(OptionGroup, frozen=True, kw_only=True):
    """The options for the cluster, and for the installation in this cluster."""

    section = "Cluster"

    kube_context: Annotated[
        str,
        Option(
            "--context",
            metavar="NAME",
            complete=known_contexts,
            help="a context of the kubeconfig (default: its current context)",
        ),
    ] = ""
    namespace: Annotated[
        str, Option("--namespace", "-n", metavar="NAME", help="namespace of the coordinator")
    ] = _NAMESPACE
    release: Annotated[
        str, Option("--release", metavar="NAME", help="name of the installation")
    ] = "keyhouse"

    def named(self) -> Release:
        """Return the installation: the name of ``--release``, in the namespace of the options."""
        return Release(self.release, self.namespace)

    def words(self) -> str:
        """Return the options as text for a command line; options with default values are left out.

        The text is for hints, which repeat the user's options.
        """
        words = []
        if self.kube_context:
            words += ["--context", self.kube_context]
        if self.namespace != _NAMESPACE:
            words += ["--namespace", self.namespace]
        if self.release != "keyhouse":
            words += ["--release", self.release]
        return "".join(f" {word}" for word in words)


class ReachOptions(OptionGroup, frozen=True, kw_only=True):
    """The options for the address of the coordinator, and for its verification."""

    section = "Trust"

    address: Annotated[
        str,
        Option(
            "--address",
            metavar="HOST",
            section="Connection",
            help="address of the Client API of the installation, HOST:PORT (default: the load"
            " balancer of the installation's Service, else a port that kubectl forwards)",
        ),
    ] = ""
    timeout: TimeoutOption = None
    attestation: AttestationFile = None
    simulation_root: SimulationRoot = None
    collateral: CollateralFile = None
    pccs: PccsUrl = ""
    pccs_ca: PccsCaFile = None
    first_manifest: FirstManifest = ""
    memory: MemoryOption = ""
    insecure: Insecure = False

    def target(self, host: str) -> Target:
        """Return the target for a verification: the address ``host``, and requirements for it.

        The requirements come from these options, never from a context of `keyhouse context`.
        """
        return Target(
            host=host,
            context="none",
            timeout=self.timeout,
            attestation=self.attestation,
            simulation_root=self.simulation_root,
            collateral=self.collateral,
            pccs=self.pccs,
            pccs_ca=self.pccs_ca,
            first_manifest=self.first_manifest,
            memory=self.memory,
            insecure=self.insecure,
        )

    def check(self, beside: Iterable[OptionGroup]) -> None:
        """Raise ``WrongUsageError`` for ``--insecure``, an option of MarbleRun's tool.

        ``beside``, the option groups of the command, has no effect.
        """
        del beside
        self.target("").refuse_unsupported()

    def require_identity(self) -> None:
        """Raise ``WrongUsageError`` without an expected identity."""
        if self.attestation is None:
            raise WrongUsageError(
                "the command has no expected identity: pass --attestation",
                hint="pass the attestation file; without this file, the operator of a cluster can"
                " run another program in the coordinator's place",
            )

    def words(self) -> str:
        """Return the options for identity and collateral as text for a command line, for hints."""
        pairs = {
            "--attestation": self.attestation,
            "--simulation-root": self.simulation_root,
            "--collateral": self.collateral,
            "--pccs": self.pccs,
            "--pccs-ca": self.pccs_ca,
        }
        return "".join(f" {option} {value}" for option, value in pairs.items() if value)


DryRun = Annotated[
    bool, Option("--dry-run", help="let the API server check every object, and change nothing")
]
Patience = Annotated[
    int,
    Option(
        "--wait",
        metavar="SECONDS",
        range=(0, 86_400),
        help="maximum time until the coordinator is ready; 0: do not wait",
    ),
]


class ValuesUnreadableError(RefusedError):
    """A file with values is not an object in YAML or JSON."""

    code = "values-unreadable"
    next_step = "correct the file of --values: an object in YAML or JSON, such as replicas: 1"


class ChartValues(OptionGroup, frozen=True, kw_only=True):
    """The options for values of the Helm chart."""

    values: Annotated[
        list[Path],
        Option(
            "--values",
            "-f",
            metavar="FILE",
            help="values of the chart, YAML or JSON; several times: later files have precedence",
        ),
    ] = msgspec.field(default_factory=list)

    def read(self) -> dict[str, object]:
        """Return the merged values of all files. Raises ``ValuesUnreadableError``."""
        made: dict[str, object] = {}
        for path in self.values:
            read = read_yaml(read_file(str(path)))
            if read.problems:
                raise ValuesUnreadableError(f"{path}: {read.problems[0]}")
            if not isinstance(read.tree, dict):
                raise ValuesUnreadableError(f"{path} is not an object with values of the chart")
            made = merge(read.tree, made)
        return made
