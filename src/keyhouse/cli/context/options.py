"""What a context may hold, as options of `keyhouse context add`."""

import os
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from keyhouse.cli.options.context_file import Context
from keyhouse.cli.output.bundles import Bundle
from keyhouse.cli.output.usage import WrongUsage

__all__ = ["Described"]


def _file(name: str, text: str) -> typer.models.OptionInfo:
    found: typer.models.OptionInfo = typer.Option(name, metavar="FILE", help=text)
    return found


class Described(Bundle, frozen=True, kw_only=True):
    """A deployment, as it was typed."""

    address: Annotated[
        str, typer.Option("--address", metavar="HOST", help="its Client API: HOST or HOST:PORT")
    ] = ""
    attestation: Annotated[
        Path | None, _file("--attestation", "who the coordinator must be: an attestation file")
    ] = None
    simulation_root: Annotated[
        Path | None,
        _file(
            "--simulation-root",
            "trust a SIMULATED platform under this root certificate (PEM);"
            " proves nothing about hardware",
        ),
    ] = None
    accepted_tcb_statuses: Annotated[
        list[str],
        typer.Option("--accepted-tcb-statuses", metavar="LIST", help="as with other commands"),
    ] = msgspec.field(default_factory=list)
    accepted_advisories: Annotated[
        list[str],
        typer.Option("--accepted-advisories", metavar="LIST", help="as with other commands"),
    ] = msgspec.field(default_factory=list)
    collateral: Annotated[
        Path | None, _file("--collateral", "what verifies its quote: a bundle file")
    ] = None
    pccs: Annotated[
        str, typer.Option("--pccs", metavar="URL", help="the PCCS that has its collateral")
    ] = ""
    pccs_ca: Annotated[
        Path | None, _file("--pccs-ca", "the only CA (PEM) that may vouch for the PCCS")
    ] = None
    cert: Annotated[
        Path | None,
        typer.Option("--cert", "-c", metavar="FILE", help="your certificate as a user (PEM)"),
    ] = None
    key: Annotated[
        Path | None, typer.Option("--key", "-k", metavar="FILE", help="its private key (PEM)")
    ] = None
    pkcs12: Annotated[
        Path | None, _file("--pkcs12", "both in one file; its password is not kept")
    ] = None
    pkcs11_config: Annotated[
        Path | None,
        _file(
            "--pkcs11-config",
            "the token with your key: as a user if no other is named, and for recoveries",
        ),
    ] = None
    pkcs11_key_id: Annotated[
        str, typer.Option("--pkcs11-key-id", metavar="HEX", help="that key's id")
    ] = ""
    pkcs11_key_label: Annotated[
        str, typer.Option("--pkcs11-key-label", metavar="LABEL", help="that key's label")
    ] = ""
    memory: Annotated[
        str,
        typer.Option("--memory", metavar="FILE", help="where its states are remembered, or none"),
    ] = ""

    def as_context(self) -> Context:
        """Return the context, its paths absolute. Raises ``WrongUsage`` or ``ClientSetup``."""
        from keyhouse.client import parse_address

        if (self.key and not self.cert) or (self.cert and not (self.key or self.pkcs11_config)):
            raise WrongUsage("--cert and --key go together", hint="or --pkcs11-config, for a token")
        if self.cert is not None and self.pkcs12 is not None:
            raise WrongUsage("there are two of you", hint="--pkcs12, or --cert with --key")
        if self.address:
            parse_address(self.address)
        memory = self.memory if self.memory in {"", "none"} else _absolute(Path(self.memory))
        fields = msgspec.structs.asdict(self)
        return msgspec.convert(
            {name.replace("_", "-"): _kept(value) for name, value in fields.items() if value}
            | ({"memory": memory} if memory else {}),
            Context,
        )


def _kept(value: object) -> str | list[str]:
    if isinstance(value, Path):
        return _absolute(value)
    return [*map(str, value)] if isinstance(value, list) else str(value)


def _absolute(path: Path) -> str:
    return os.path.abspath(path)  # noqa: PTH100 links are followed when it is read, not now
