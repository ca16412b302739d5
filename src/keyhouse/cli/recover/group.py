"""`keyhouse recover`: bring back a state whose machine is lost."""

from typing import Any

import typer
from typer.core import TyperGroup

from keyhouse.cli.recover.offline import encrypt, sign
from keyhouse.cli.recover.read import public_key, secrets
from keyhouse.cli.recover.upload import upload

__all__ = ["app", "with_signature_app"]


class _UploadFirst(TyperGroup):
    """`keyhouse recover FILE HOST ...` is `keyhouse recover upload FILE HOST ...`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in {"--help", "-h"}:
            args = ["upload", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_UploadFirst,
    no_args_is_help=True,
    help="Bring back a state whose machine is lost, share by share.",
)
app.command(name="upload")(upload)
app.command(name="public-key")(public_key)
app.command(name="sign")(sign)
app.command(name="encrypt")(encrypt)
app.command(name="secrets")(secrets)
app.command(name="sign-secret", hidden=True)(sign)
app.command(name="encrypt-secret", hidden=True)(encrypt)

with_signature_app = typer.Typer(
    cls=_UploadFirst,
    no_args_is_help=True,
    help="The same as recover, under the names of the interface's usual tool.",
)
with_signature_app.command(name="upload")(upload)
with_signature_app.command(name="public-key")(public_key)
with_signature_app.command(name="encrypt-secret")(encrypt)
with_signature_app.command(name="sign-secret")(sign)
