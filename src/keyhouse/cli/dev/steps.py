"""The commands that `keyhouse dev` suggests to its user, ready to copy."""

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final, Self

import msgspec

from keyhouse.cli.dev.context import ActiveContext
from keyhouse.cli.dev.coordinator import RunningCoordinator
from keyhouse.cli.dev.deployment import EnforcedManifest
from keyhouse.cli.dev.folder import USER, Folder

_NAME: Final = "keyhouse"
_SPECIAL: Final = frozenset('"$`\\!')  # characters with a meaning between double quotes in a shell


def called_as() -> tuple[str, ...]:
    """Return the words that run this program in another shell, before the name of a command.

    The result is ``keyhouse`` if another shell finds this program under that name, else the
    program's path. In a clone, the program is in an environment that is not on PATH. The
    environment of uvx is on the PATH of its child processes only. The words never install a package
    with the name ``keyhouse``: a package index may have a different program under that name.
    """
    called, on_path = Path(sys.argv[0]), shutil.which(_NAME)
    if called.name == "__main__.py":
        return (sys.executable, "-m", "keyhouse.cli")
    in_uvx = "UV" in os.environ and "VIRTUAL_ENV" not in os.environ
    if not called.is_file() or (on_path is not None and called.samefile(on_path) and not in_uvx):
        return (_NAME,)
    return (str(called.absolute()),)


class SuggestedCommand(msgspec.Struct, frozen=True):
    """A shell command that `keyhouse dev` suggests. ``what`` is its purpose, in words."""

    what: str
    command: str


class DevDeployment(msgspec.Struct, frozen=True, rename="camel"):
    """The paths and addresses of a development coordinator.

    An empty string means that the value does not exist.
    """

    folder: str
    client_api: str
    workload_api: str
    context: str
    context_in_use: bool
    attestation: str
    simulation_root: str
    root: str
    fingerprint: str  # of the manifest in force
    has_sample: bool  # the manifest in force is the sample
    manifest: str = ""  # the manifest's file
    user: str = ""
    certificate: str = ""
    key: str = ""
    recovery_secrets: str = ""
    shop: str = ""  # HOST:PORT of the example's front end
    witness_policy: str = ""

    @classmethod
    def of(
        cls,
        folder: Folder,
        serving: RunningCoordinator,
        enforced: EnforcedManifest,
        active: ActiveContext,
        *,
        has_user: bool,
        shop: str,
    ) -> Self:
        """Return the paths and addresses of the running coordinator ``serving``.

        ``folder``: the folder of `keyhouse dev`. ``enforced``: the manifest in force. ``active``:
        the context of the deployment. ``has_user``: the folder has a user's certificate and key.
        ``shop``: the address of the example's front end, or "".
        """
        return cls(
            folder=str(folder.path),
            client_api=serving.client,
            workload_api=serving.workload,
            context=active.name,
            context_in_use=active.is_in_use,
            attestation=str(folder.attestation),
            simulation_root=str(folder.simulation_root),
            root=str(folder.root),
            fingerprint=enforced.fingerprint,
            has_sample=enforced.is_sample,
            manifest=enforced.manifest,
            user=USER if has_user else "",
            certificate=str(folder.certificate) if has_user else "",
            key=str(folder.key) if has_user else "",
            recovery_secrets=enforced.recovery_secrets,
            shop=shop,
            witness_policy=str(folder.policy) if folder.witnesses.exists() else "",
        )

    def rows(self) -> dict[str, str]:
        """Return the addresses and files of the coordinator, as rows for people."""
        facts = {
            "Client API": self.client_api,
            "workload API": self.workload_api,
            "manifest": self.manifest or f"unchanged, {self.fingerprint[:16]}...",
            "user": self.user,
            "recovery": self.recovery_secrets,
            "shop": self.shop,
            "witnesses": f"3, in {self.witness_policy}" if self.witness_policy else "",
            "context": self.context + (", in use" if self.context_in_use else ""),
            "folder": self.folder,
        }
        return {name: value for name, value in facts.items() if value}

    def where(self) -> str:
        """Return the place for the suggested commands, in words for people.

        The words are ", in this directory" if the commands have relative paths, else "".
        """
        return "" if Path(self.folder).is_absolute() else ", in this directory"

    def first(self) -> str:
        """Return the line that another shell needs before the suggested commands, or "".

        If the shell does not find the program, the line defines the alias ``keyhouse``. If a
        different context is in use, the line sets ``KEYHOUSE_CONTEXT``.
        """
        words, lines = called_as(), []
        if words != (_NAME,):
            command = shlex.join(words)
            quoted = shlex.quote(command) if set(command) & _SPECIAL else f'"{command}"'
            lines.append(f"alias {_NAME}={quoted}")
        if not self.context_in_use:
            lines.append(f"export KEYHOUSE_CONTEXT={self.context}")
        return "; ".join(lines)

    def steps(self) -> list[SuggestedCommand]:
        """Return the suggested commands for a new user, in the order of their use."""
        state = SuggestedCommand("verify the coordinator, and print its state", _command("status"))
        manifest = SuggestedCommand("print the manifest in force", _command("manifest", "get"))
        if not self.has_sample:
            return [state, manifest]
        upload = "printf 'hi' | " + _command("secret", "set", "greeting", "--value", "-")
        return [
            state,
            SuggestedCommand(
                f"read a secret, as {self.user}", _command("secret", "get", "greeting", "--show")
            ),
            SuggestedCommand("upload another value", upload),
            manifest,
            SuggestedCommand("join as a workload", self._launching()),
            *([SuggestedCommand("buy an apple in the shop", self._buying())] if self.shop else []),
        ]

    def _buying(self) -> str:
        return shlex.join(["curl", "--cacert", self.root, "-d", "", f"https://{self.shop}/apples"])

    def _launching(self) -> str:
        words = ("run", "--type", "web", "--coordinator", self.workload_api)
        later = (
            ("--platform", "simulation"),
            ("--simulated-machine", f"{self.folder}/data"),
            ("--root-certificate", self.root),
            ("--uuid-file", f"{self.folder}/uuid"),
            ("--", "sh", "-c", "echo a token of ${#TOKEN} digits"),
        )
        lines = [_command(*words), *map(shlex.join, later)]
        return " \\\n    ".join(lines)


def _command(*words: str) -> str:
    return shlex.join([_NAME, *words])
