"""`keyhouse kube`: the commands for a Kubernetes cluster."""

import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import click

from keyhouse.base.errors import RefusedError, UnavailableError
from keyhouse.base.printable import printable
from keyhouse.base.user_files import read_file
from keyhouse.cli.kube.api.cluster import Cluster
from keyhouse.cli.kube.health import Finding, findings, is_ready
from keyhouse.cli.kube.installation import (
    Applied,
    InstallationPlan,
    apply,
    full_name,
    installed,
    plan,
    recorded_values,
    require_node,
    uninstall,
)
from keyhouse.cli.kube.options import ChartValues, ClusterOptions, DryRun, Patience, ReachOptions
from keyhouse.cli.kube.synchronised import write_bundle, write_marbles
from keyhouse.cli.kube.verification import VerifiedCoordinator, marbles_of, verified
from keyhouse.cli.output.show import show_json, show_table, working
from keyhouse.cli.parser import REFUSED, AsJson, CommandGroup, Option
from keyhouse.cli.parser.usage import WrongUsageError

_PAUSE: Final = 1.0  # seconds between two looks at the pods, chosen: a pod takes longer to start
_WAIT: Final = 300  # seconds, as helm's default of --timeout

Force = Annotated[
    bool,
    Option(
        "--force-conflicts",
        help="overwrite fields that another program manages, such as helm or kubectl",
    ),
]

SkipPrecheck = Annotated[
    bool,
    Option(
        "--skip-precheck",
        help="install without a suitable node, for example if the cluster adds nodes for new pods",
    ),
]

app = CommandGroup()


class RolloutTimeoutError(UnavailableError):
    """The coordinator did not become ready in time."""

    code = "not-ready"


@app.command("install")
def install(
    where: ClusterOptions,
    reach: ReachOptions,
    given: ChartValues,
    *,
    dry_run: DryRun = False,
    force: Force = False,
    skip_precheck: SkipPrecheck = False,
    wait: Patience = _WAIT,
    as_json: AsJson = False,
) -> None:
    """Install the coordinator, and verify its quote.

    Example: keyhouse kube install --values values.yaml --attestation attestation.json --pccs
    https://pccs.example:8081

    The command finds the SGX resources of the nodes, renders the chart, applies the objects on the
    server, and waits until the coordinator is ready. A second installation with the same values
    changes nothing. With --json and --dry-run, the output has all objects, for example for a
    repository of your cluster.
    """
    with Cluster.connect(where.kube_context) as cluster:
        planned = plan(cluster, where.named(), given.read())
        if not skip_precheck:
            require_node(planned)
        _carry_out(
            cluster, planned, where, reach, dry_run=dry_run, force=force, wait=wait, as_json=as_json
        )


@app.command("upgrade")
def upgrade(
    where: ClusterOptions,
    reach: ReachOptions,
    given: ChartValues,
    *,
    dry_run: DryRun = False,
    force: Force = False,
    skip_precheck: SkipPrecheck = False,
    wait: Patience = _WAIT,
    as_json: AsJson = False,
) -> None:
    """Upgrade an installation to this chart.

    Example: keyhouse kube upgrade --attestation attestation.json

    Without --values, the values of the installation stay in force. The command deletes objects that
    the chart no longer has. For an installation by helm, pass --values and --force-conflicts. From
    then on this command manages the objects, so do not change the installation by helm again.
    """
    release = where.named()
    with Cluster.connect(where.kube_context) as cluster:
        recorded = recorded_values(cluster, release)
        if recorded is None and not any(installed(cluster, release)):
            raise RefusedError(
                f"{release.name} is not installed in the namespace {release.namespace}",
                hint=f"use keyhouse kube install{where.words()}",
            )
        if recorded is None and not given.values:
            raise RefusedError(
                f"another program has installed {release.name}, so its values are unknown",
                hint="pass --values with the output of helm get values",
            )
        planned = plan(cluster, release, given.read() if given.values else dict(recorded or {}))
        if not skip_precheck:
            require_node(planned)
        _carry_out(
            cluster, planned, where, reach, dry_run=dry_run, force=force, wait=wait, as_json=as_json
        )


@app.command("uninstall")
def remove(
    where: ClusterOptions,
    *,
    delete_state: Annotated[
        bool,
        Option("--delete-state", help="delete the volumes with the state; backups always stay"),
    ] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="list the objects of the installation, and delete nothing")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Delete the installation, but keep its state.

    Example: keyhouse kube uninstall

    The claims of the volumes stay, and a later installation opens the same state. With
    --delete-state, the state is lost: nobody can restore it without a backup.
    """
    with Cluster.connect(where.kube_context) as cluster:
        changes = list(
            uninstall(cluster, where.named(), delete_state=delete_state, dry_run=dry_run)
        )
    _show_changes(changes, as_json=as_json)
    if as_json:
        return
    if not changes:
        click.echo("nothing is installed", err=True)
    elif dry_run:
        click.echo("a dry run: nothing has changed", err=True)
    elif any(each.change == "kept" for each in changes):
        click.echo("the volumes with the state remain; keyhouse kube install uses them", err=True)


@app.command("check")
def check(
    where: ClusterOptions,
    given: ChartValues,
    *,
    as_json: AsJson = False,
) -> None:
    """List missing and unready parts, and since when.

    Example: keyhouse kube check

    Without --values, the command uses the values of the installation. It ends with exit code 1 if a
    part is missing.
    """
    release = where.named()
    with Cluster.connect(where.kube_context) as cluster:
        values = given.read() if given.values else recorded_values(cluster, release)
        if values is None:
            raise RefusedError(
                f"the namespace {release.namespace} has no installation {release.name} of this"
                " command",
                hint="pass --values for an installation by helm, or use keyhouse kube install",
            )
        found = findings(cluster, release, plan(cluster, release, values).objects)
    if as_json:
        show_json({"ok": not found, "findings": found})
    elif found:
        _show_findings(found)
    else:
        click.echo("every part is present and ready")
        click.echo("next: keyhouse status HOST verifies the coordinator's quote", err=True)
    if found:
        sys.exit(REFUSED)


@app.command("precheck")
def precheck(
    where: ClusterOptions,
    given: ChartValues,
    *,
    as_json: AsJson = False,
) -> None:
    """Print whether each node can run the coordinator.

    Example: keyhouse kube precheck --values values.yaml

    For an unsuitable node, the output has the reasons. Without --values, the command judges the
    nodes for an enclave on SGX. Exit code 1: no node is suitable.
    """
    values = given.read() if given.values else _FOR_SGX
    with Cluster.connect(where.kube_context) as cluster:
        reports = plan(cluster, where.named(), values).nodes
    if as_json:
        show_json({"nodes": reports})
    elif reports:
        rows = [
            (
                each.name,
                ", ".join(each.hardware) or "none",
                f"{each.epc >> 20} MiB" if each.epc else "-",
                "; ".join(each.reasons) or "suitable",
            )
            for each in reports
        ]
        show_table(("NODE", "HARDWARE", "EPC", "RESULT"), rows)
    if not any(not each.reasons for each in reports):
        raise RefusedError(
            "no node can run the coordinator" if reports else "the cluster has no nodes",
            hint="read the reasons above; docs/how-to/kubernetes-from-zero.md explains each reason",
        )


@app.command("trust-bundle")
def trust_bundle(
    where: ClusterOptions, reach: ReachOptions, *, dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Write the verified root into a ClusterTrustBundle.

    Example: keyhouse kube trust-bundle --attestation attestation.json

    Pods mount the bundle as a file. Repeat the command after a recovery on another machine, or let
    a CronJob repeat it. Without a verified quote, the bundle stays unchanged. The command needs
    Kubernetes 1.37.
    """
    release = where.named()
    with Cluster.connect(where.kube_context) as cluster:
        with verified(cluster, release, reach) as found:
            pem = found.root_pem
        change = write_bundle(cluster, release, pem, dry_run=dry_run)
    _show_changes([change], as_json=as_json)


@app.command("marbles")
def marbles(
    where: ClusterOptions, reach: ReachOptions, *, dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Write the names of the marbles into the cluster.

    Example: keyhouse kube marbles --attestation attestation.json

    The names come from the manifest of the verified coordinator. The API server then refuses pods
    with the label of an unknown marble. Repeat the command after each update of the manifest, for
    example in CI.
    """
    release = where.named()
    with Cluster.connect(where.kube_context) as cluster:
        with verified(cluster, release, reach) as found:
            listed = marbles_of(found, reach)
        change = write_marbles(cluster, release, listed, dry_run=dry_run)
    _show_changes([change], as_json=as_json)


@app.command("webhook")
def webhook(
    where: ClusterOptions,
    *,
    policies: Annotated[
        Path,
        Option("--policies", metavar="FILE", help="the policies, which the chart writes"),
    ],
    listen: Annotated[
        str,
        Option("--listen", metavar="HOST:PORT", help="address for the API server, over HTTPS"),
    ] = ":8443",
    as_json: AsJson = False,
) -> None:
    """Apply the admission policies in place of the API server.

    Example: keyhouse kube webhook --policies policies.yaml

    The command is for a cluster that does not support such policies. If injection.webhook.enabled
    is true, the chart runs the command in the cluster. The command creates its certificate in
    memory, rotates it, and writes it into the configurations of the webhook. It ends with SIGTERM
    or SIGINT.
    """
    from keyhouse.cli.kube.webhook.policies import read_policies
    from keyhouse.cli.kube.webhook.serving import run_webhook

    host, _, port = listen.rpartition(":")
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise WrongUsageError(
            f"--listen is {listen!r}, must be HOST:PORT or :PORT", hint="pass --listen :8443"
        )
    stop = threading.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: stop.set())
    run_webhook(
        where.kube_context,
        where.named(),
        read_policies(read_file(str(policies))),
        (host.strip("[]"), int(port)),
        stop,
        lambda event: _show_event(event, as_json=as_json),
    )


def _show_event(event: Mapping[str, str], *, as_json: bool) -> None:
    if as_json:
        show_json(event)
    else:
        more = "".join(f", {name} {value}" for name, value in event.items() if name != "event")
        click.echo(printable(f"{event['event']}{more}"))
    sys.stdout.flush()  # a log: its reader waits for each line


_FOR_SGX: Final[Mapping[str, Any]] = {
    "image": {"repository": "none", "digest": f"sha256:{'0' * 64}"},
    "sgx": {"enabled": True},
}
"""Values without a meaning, except for the requirement of the nodes."""


def _carry_out(
    cluster: Cluster,
    planned: InstallationPlan,
    where: ClusterOptions,
    reach: ReachOptions,
    *,
    dry_run: bool,
    force: bool,
    wait: int,
    as_json: bool,
) -> None:
    with working("applying the objects"):
        changes = list(apply(cluster, planned, dry_run=dry_run, force=force))
    result: dict[str, Any] = {"changes": changes}
    if not as_json:
        _show_changes(changes, as_json=False)
    if dry_run:
        if as_json:
            show_json({**result, "objects": planned.objects})
        else:
            click.echo("a dry run: nothing has changed", err=True)
        return
    if wait:
        _await_ready(cluster, planned, wait, where)
    if wait and reach.attestation is not None:
        with verified(cluster, planned.release, reach) as found:
            result |= _identity(found)
        if not as_json:
            click.echo(f"verified  the quote of {result['address']}")
    if as_json:
        show_json(result)
    else:
        for line in _next_steps(planned, where, reach, is_verified="address" in result):
            click.echo(printable(line), err=True)


def _identity(verified: VerifiedCoordinator) -> dict[str, Any]:
    verdict = verified.proven.verdict
    return {
        "address": verified.address,
        "uniqueId": verdict.mrenclave.hex(),
        "signerId": verdict.mrsigner.hex(),
        "root": verified.root_pem,
    }


def _await_ready(
    cluster: Cluster, planned: InstallationPlan, wait: int, where: ClusterOptions
) -> None:
    """Wait until the coordinator's StatefulSet in ``planned`` is ready, ``wait`` seconds at most.

    Raises ``RolloutTimeoutError`` with a problem of the installation. The hint of this error
    repeats the options ``where``, which name the cluster and the installation.
    """
    name, namespace = full_name(planned.release), planned.release.namespace
    end = time.monotonic() + wait
    with working("waiting for the coordinator"):
        while not is_ready(cluster.get("apps/v1", "StatefulSet", name, namespace)):
            if time.monotonic() > end:
                found = findings(cluster, planned.release, planned.objects)
                reason = f"{found[-1].part}: {found[-1].problem}" if found else "no reason is known"
                raise RolloutTimeoutError(
                    f"the coordinator was not ready after {wait} seconds; {reason}",
                    hint=f"list all missing parts: keyhouse kube check{where.words()}",
                )
            time.sleep(_PAUSE)


def _next_steps(
    planned: InstallationPlan, where: ClusterOptions, reach: ReachOptions, *, is_verified: bool
) -> Iterator[str]:
    host = reach.address or "localhost:4433"
    trust = reach.words() or " --attestation attestation.json"
    name, namespace = full_name(planned.release), planned.release.namespace
    if not reach.address:
        yield f"next: kubectl --namespace {namespace} port-forward service/{name} 4433:client"
    if not is_verified:
        yield f"next: keyhouse status {host}{trust}"
    yield f"next: keyhouse manifest set manifest.json {host}{trust} --recoverydata recovery.json"
    if planned.completed["injection"]["enabled"]:
        yield f"next: keyhouse kube marbles{where.words()}{trust}"


def _show_changes(changes: Iterable[Applied], *, as_json: bool) -> None:
    if as_json:
        show_json({"changes": list(changes)})
        return
    rows = [(each.change, each.kind, each.name) for each in changes]
    if rows:
        show_table(("CHANGE", "KIND", "NAME"), rows)


def _show_findings(findings: Iterable[Finding]) -> None:
    rows = [
        (each.part, each.problem, f"since {each.since}" if each.since else "", each.hint)
        for each in findings
    ]
    show_table(("PART", "PROBLEM", "SINCE", "HINT"), rows)
