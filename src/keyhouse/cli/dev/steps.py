"""What to type next with a throw-away coordinator: commands that can be copied as they are."""

import shlex
import shutil
import sys
from pathlib import Path

import msgspec

__all__ = ["Deployment", "Step", "called_as"]

_NAME = "keyhouse"


def called_as() -> tuple[str, ...]:
    """Return the words before a subcommand, for a shell in any directory.

    ``keyhouse`` where the shell finds this very program by that name, else the place of it: in a
    clone it lies in an environment that is not on PATH.
    """
    called, found = Path(sys.argv[0]), shutil.which(_NAME)
    if called.name == "__main__.py":
        return (sys.executable, "-m", "keyhouse.cli")
    if not called.is_file() or (found is not None and called.samefile(found)):
        return (_NAME,)
    return (str(called.absolute()),)


class Step(msgspec.Struct, frozen=True):
    """One command of a shell, and what it is for."""

    what: str
    command: str


class Deployment(msgspec.Struct, frozen=True, rename="camel"):
    """Where everything of a throw-away deployment is. Empty: there is no such thing."""

    folder: str
    client_api: str
    workload_api: str
    attestation: str
    simulation_root: str
    memory: str
    manifest: str = ""
    fingerprint: str = ""  # of the manifest that is set
    user: str = ""
    certificate: str = ""
    key: str = ""
    recovery_secrets: str = ""

    def steps(self) -> list[Step]:
        """Return what can be typed next, in order."""
        state = Step("see its state", self._trusting("status", self.client_api))
        if self.fingerprint:
            get = ("manifest", "get", self.client_api)
            return [state, Step("print the manifest in force", self._trusting(*get))]
        setting = ("manifest", "set", self.manifest, self.client_api)
        return [
            state,
            Step("set the sample manifest (edit it first, if you like)", self._trusting(*setting)),
            *self._as_user(),
            Step("become a workload", self._launching()),
        ]

    def _as_user(self) -> list[Step]:
        who = ("--cert", self.certificate, "--key", self.key)
        greeting = str(Path(self.folder) / "greeting.json")
        write = ("secret", "set", greeting, self.client_api)
        read = ("secret", "get", "greeting", self.client_api)
        return [
            Step(f"upload a secret as the user {self.user}", self._trusting(*write, more=who)),
            Step("read it back", f"{self._trusting(*read, more=who)} | cat"),
        ]

    def _trusting(self, *words: str, more: tuple[str, ...] = ()) -> str:
        memory = ("--memory", self.memory)  # not the user's own: the next one has another root
        return _command(words, *((more,) if more else ()), self._trust(), memory)

    def _trust(self) -> tuple[str, ...]:
        return ("--attestation", self.attestation, "--simulation-root", self.simulation_root)

    def _launching(self) -> str:
        machine = str(Path(self.attestation).parent.parent)
        return _command(
            ("run", "--type", "web", "--coordinator", self.workload_api),
            ("--client-api", self.client_api, "--uuid-file", str(Path(self.folder) / "uuid")),
            ("--platform", "simulation", "--simulated-machine", machine),
            self._trust(),
            ("--", "sh", "-c", 'echo "a token of ${#TOKEN} digits"'),
        )


def _command(first: tuple[str, ...], *further: tuple[str, ...]) -> str:
    return " \\\n    ".join(shlex.join(line) for line in ((*called_as(), *first), *further))
