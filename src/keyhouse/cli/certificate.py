"""`keyhouse certificate root | intermediate | chain`: certificates of a verified coordinator."""

import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from keyhouse.cli.options.connect import chain_pem, verify_target
from keyhouse.cli.options.target import Target
from keyhouse.cli.output.files import write_output
from keyhouse.cli.output.show import show_json
from keyhouse.cli.parser import AsJson, CommandGroup, Option

if TYPE_CHECKING:
    from keyhouse.client import TrustedCoordinator

app = CommandGroup()

Output = Annotated[
    str, Option("--output", "-o", metavar="FILE", help="new file (default: standard output)")
]


@app.command("root")
def root(target: Target, output: Output = "", *, as_json: AsJson = False) -> None:
    """Print the root certificate of the deployment, PEM.

    An update does not change this certificate.

    Example: keyhouse certificate root localhost:4433 --attestation attestation.json
    --simulation-root simulation/root.pem -o root.pem
    """
    _write_pem(target, output, lambda proven: _pem(proven.root_der), as_json=as_json)


@app.command("intermediate")
def intermediate(target: Target, output: Output = "", *, as_json: AsJson = False) -> None:
    """Print the intermediate certificate, PEM.

    The key of this certificate signs the certificates of the workloads.

    Example: keyhouse certificate intermediate localhost:4433 --attestation attestation.json
    --simulation-root simulation/root.pem -o intermediate.pem
    """
    _write_pem(target, output, lambda proven: _pem(proven.intermediate_der), as_json=as_json)


@app.command("chain")
def chain(target: Target, output: Output = "", *, as_json: AsJson = False) -> None:
    """Print the intermediate certificate, then the root, PEM.

    Example: keyhouse certificate chain localhost:4433 --attestation attestation.json
    --simulation-root simulation/root.pem -o chain.pem
    """
    _write_pem(target, output, chain_pem, as_json=as_json)


def _write_pem(
    target: Target, output: str, what: "Callable[[TrustedCoordinator], str]", *, as_json: bool
) -> None:
    pem = what(verify_target(target))
    if output or not as_json:
        write_output(pem.encode("ascii"), output)
    if as_json:
        show_json({"certificates": pem, "file": output or None})


def _pem(der: bytes) -> str:
    return ssl.DER_cert_to_PEM_cert(der)
