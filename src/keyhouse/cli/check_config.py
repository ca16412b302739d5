"""Check the settings of a coordinator without a start: `keyhouse serve --check-config`.

The check changes no state and holds no lock. So operators can run the check beside a running
coordinator.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NoReturn, TypeVar

import msgspec

from keyhouse.attestation import open_platform
from keyhouse.attestation.collateral.amd import read_amd_path
from keyhouse.attestation.platforms.find import platform_name
from keyhouse.attestation.sources.files import read_bundles
from keyhouse.attestation.sources.selection import pccs_of
from keyhouse.authority import make_coordinator_keys
from keyhouse.base.errors import InvalidError, KeyhouseError
from keyhouse.base.printable import printable
from keyhouse.base.process.flags import SettingRefusedError
from keyhouse.coordinator import NewDeployment, check_fully
from keyhouse.journal import check_state_directory
from keyhouse.journal.directory.acquire import require_no_state
from keyhouse.journal.directory.disk import JOURNAL
from keyhouse.journal.shared import TRUSTED_FOR_FRESHNESS
from keyhouse.manifest import fingerprint
from keyhouse.server.process.open_state import new_deployment, reach_database, require_clock
from keyhouse.server.process.serve import exit_code
from keyhouse.server.process.settings import Settings, read_settings
from keyhouse.server.process.startup_manifest import read_startup_manifest, require_free
from keyhouse.server.process.supervisor import require_several_processes

OK: Final = 0
REFUSED: Final = 1

T = TypeVar("T")


class ConfigFinding(msgspec.Struct, frozen=True, rename="camel"):
    """A finding about the flag or setting ``about``: a note, or a problem that prevents a start."""

    # The flag or setting.
    about: str
    is_problem: bool
    text: str
    hint: str = ""


def main(arguments: Sequence[str]) -> NoReturn:
    """Check the settings in ``arguments`` and in the environment, then end the process.

    The caller has isolated the process in the same way as `keyhouse serve`. So the check reads the
    same settings as a start.
    """
    sys.exit(exit_code(lambda: check_config(arguments, os.environ)))


def check_config(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Print the findings about the settings in ``arguments`` and ``environment``.

    Return the exit code: 0, or 1 if a problem would prevent a start.
    """
    try:
        settings = read_settings(arguments, environment)
    except SettingRefusedError as refused:
        found = [_problem("settings", refused)]
    else:
        found = list(findings_of(settings))
    fine = not any(each.is_problem for each in found)
    if "--json" in arguments:
        text = msgspec.json.encode({"ok": fine, "findings": found}).decode("utf-8") + "\n"
    else:
        text = "".join(map(_lines, found)) + ("ok\n" if fine else "")
    sys.stdout.write(text)
    return OK if fine else REFUSED


def findings_of(settings: Settings) -> Iterator[ConfigFinding]:
    """Yield findings about ``settings``, and about the files and services in these settings."""
    yield from (
        ConfigFinding("environment", is_problem=False, text=note) for note in settings.notes
    )
    yield from _platform(settings)
    yield from _directory(settings)
    folder, confirmed = settings.data_dir.absolute(), settings.confirm_clock
    if settings.store is None:
        yield from _try("--confirm-clock", lambda: require_clock(folder, confirmed=confirmed))[1]
    else:
        yield from _try("--data-dir", lambda: require_no_state(folder))[1]
        yield from _try("--store", lambda: asyncio.run(reach_database(settings)))[1]
        yield ConfigFinding("--store", is_problem=False, text=TRUSTED_FOR_FRESHNESS)
        yield from _password_file(settings)
    if settings.replicas > 1:
        yield from _try("--replicas", require_several_processes)[1]
    bundles = settings.collateral
    if bundles is not None:
        yield from _try("--collateral", lambda: read_bundles([bundles]))[1]
    amd = settings.amd_collateral
    if amd is not None:
        yield from _try("--amd-collateral", lambda: read_amd_path(amd))[1]
    if settings.pccs:
        yield from _try("--pccs", lambda: pccs_of(settings.pccs, settings.pccs_ca))[1]
    new, problems = _try("--dns-names", lambda: new_deployment(settings))
    yield from problems
    if new is not None and settings.startup_manifest is not None:
        yield from _startup_manifest(settings, new, settings.startup_manifest)


def _platform(settings: Settings) -> Iterator[ConfigFinding]:
    name, problems = _try("--platform", lambda: platform_name(settings.platform))
    yield from problems
    if name is None:
        return
    with tempfile.TemporaryDirectory(prefix="keyhouse-") as folder:
        # A simulated platform gets a temporary directory, because opening the platform of the state
        # may write to the state.
        place = Path(folder) if name == "simulation" else settings.data_dir.absolute()
        must_seal = settings.store is None
        _, problems = _try("--platform", lambda: open_platform(name, place, must_seal=must_seal))
    yield from problems
    if name == "simulation":
        yield ConfigFinding(
            "--platform",
            is_problem=False,
            text="the platform is a SIMULATION, so its quotes prove nothing",
            hint="use the coordinator only for tests",
        )


def _password_file(settings: Settings) -> Iterator[ConfigFinding]:
    """Yield a note if other users can read the file with the database's password."""
    path = settings.store_password_file
    if path is None:
        return
    try:
        mode = path.stat().st_mode & 0o777
    except OSError:  # deleted since the settings read the file
        return
    if mode & 0o077:
        text = f"the file mode is {mode:04o}, so other users of this machine may read the password"
        hint = f"run: chmod 600 {printable(str(path))}"
        yield ConfigFinding("--store-password-file", is_problem=False, text=text, hint=hint)


def _directory(settings: Settings) -> Iterator[ConfigFinding]:
    folder = settings.data_dir.absolute()
    holder, problems = _try("--data-dir", lambda: check_state_directory(folder))
    yield from problems
    if holder:
        yield ConfigFinding(
            "--data-dir", is_problem=False, text=holder, hint="stop that coordinator before a start"
        )


def _startup_manifest(
    settings: Settings, new: NewDeployment, path: Path
) -> Iterator[ConfigFinding]:
    flag = "--startup-manifest"
    file = settings.startup_recovery_file
    raw, problems = _try(flag, lambda: read_startup_manifest(path, file))
    yield from problems
    if raw is None:
        return
    found = fingerprint(raw)
    if settings.claim_fingerprint and settings.claim_fingerprint != found:
        yield ConfigFinding(
            flag,
            is_problem=True,
            text=f"the manifest has the fingerprint {found}, but --claim-fingerprint names"
            f" {settings.claim_fingerprint}",
            hint="pass the fingerprint of this manifest with --claim-fingerprint, or another"
            " manifest with --startup-manifest",
        )
    _, problems = _try(flag, lambda: _check_manifest(raw, new))
    yield from problems
    if file is not None and not os.path.lexists(settings.data_dir.absolute() / JOURNAL):
        yield from _try(flag, lambda: require_free(file))[1]


def _check_manifest(raw: bytes, new: NewDeployment) -> None:
    now = datetime.now(UTC)
    keys = make_coordinator_keys(
        dns_names=new.dns_names,
        ip_addresses=new.ip_addresses,
        curve=new.curve,
        now=now,
        simulated=True,
    )
    check_fully(raw, keys=keys, now=now)


def _try(flag: str, check: Callable[[], T]) -> tuple[T | None, list[ConfigFinding]]:
    try:
        return check(), []
    except InvalidError as invalid:
        return None, [
            ConfigFinding(
                flag,
                is_problem=True,
                text=f"{each.at}: {each.problem}" if each.at else each.problem,
                hint=each.hint,
            )
            for each in invalid.problems
        ]
    except KeyhouseError as error:
        return None, [_problem(flag, error)]


def _problem(flag: str, error: KeyhouseError) -> ConfigFinding:
    return ConfigFinding(flag, is_problem=True, text=error.message, hint=error.hint)


def _lines(finding: ConfigFinding) -> str:
    word = "error" if finding.is_problem else "note"
    hint = f"    hint: {printable(finding.hint)}\n" if finding.hint else ""
    return f"{word}: {finding.about}: {printable(finding.text)}\n{hint}"
