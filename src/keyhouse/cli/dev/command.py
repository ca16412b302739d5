"""`keyhouse dev`: a simulated coordinator to try things on, which leaves nothing behind."""

import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Final

import msgspec

from keyhouse.cli.dev.coordinator import coordinator_below
from keyhouse.cli.dev.steps import Deployment
from keyhouse.cli.manifest.file import open_manifest
from keyhouse.cli.manifest.offline import problems_of
from keyhouse.cli.output.show import show_json, show_rows
from keyhouse.cli.parser.command import AsJson, command
from keyhouse.cli.parser.parameters import Option

__all__ = ["dev"]

_ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ROWS: Final = {
    "client API": "client_api",
    "workload API": "workload_api",
    "manifest": "manifest",
    "fingerprint": "fingerprint",
    "user": "user",
    "certificate": "certificate",
    "key": "key",
    "recovery": "recovery_secrets",
    "folder": "folder",
}


@command
def dev(
    manifest: Annotated[
        Path | None,
        Option("--manifest", metavar="FILE", help="set this manifest at once, JSON or YAML"),
    ] = None,
    client_port: Annotated[
        int, Option(range=(0, 65535), help="of the Client API; 0: any that is free")
    ] = 0,
    workload_port: Annotated[
        int, Option(range=(0, 65535), help="of the workload API; 0: any that is free")
    ] = 0,
    *,
    no_user: Annotated[
        bool, Option("--no-user", help="set the manifest as it is, without the user dev")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a throw-away SIMULATED coordinator on 127.0.0.1, and say what can be typed next.

    It lives in a temporary directory until Ctrl-C, which ends it and removes everything. A user,
    dev, is made with it: in the sample manifest, or added to yours, where it may read and write
    the secrets.

    Example: keyhouse dev
    """
    from keyhouse.cli.dev.deployment import prepare

    raw = None
    if manifest is not None:
        given = open_manifest(str(manifest))
        with given.explained():
            raw = given.raw
            problems_of(raw)
    with _until_signalled(), tempfile.TemporaryDirectory(prefix="keyhouse-dev-") as name:
        folder = Path(name)
        with coordinator_below(folder, client_port, workload_port) as serving:
            made_user = raw is None or not no_user
            _tell(prepare(folder, serving, raw, made_user=made_user), as_json=as_json)
            raise serving.ended()


class _SignalledError(Exception):
    """A signal came that ends the command."""


@contextmanager
def _until_signalled() -> Iterator[None]:
    """End what is inside, in order, at the first signal to end; further ones change nothing."""

    def end(_number: int, _frame: FrameType | None) -> None:
        for number in _ENDS:
            signal.signal(number, signal.SIG_IGN)
        raise _SignalledError

    for number in _ENDS:
        signal.signal(number, end)
    try:
        yield
    except _SignalledError:
        sys.stderr.write("ended; nothing is left\n")


def _tell(deployment: Deployment, *, as_json: bool) -> None:
    steps = deployment.steps()
    if as_json:
        show_json({**msgspec.to_builtins(deployment), "next": steps})
    else:
        rows = {word: getattr(deployment, name) for word, name in _ROWS.items()}
        sys.stdout.write("ready: a SIMULATED coordinator, which protects nothing\n\n")
        show_rows({word: value for word, value in rows.items() if value})
        sys.stdout.write("\nnext, in another terminal:\n")
        for step in steps:
            sys.stdout.write(f"\n# {step.what}\n{step.command}\n")
        sys.stdout.write("\nCtrl-C ends it and removes all of this.\n")
    sys.stdout.flush()
