"""The join of a workload: its identity, its evidence, and the activation with retries."""

from collections.abc import Callable
from functools import cache, cached_property
from typing import TYPE_CHECKING, Final

from keyhouse.attestation import PlatformMissingError
from keyhouse.attestation.platforms.find import open_for_quotes, platform_name
from keyhouse.base.errors import UnavailableError
from keyhouse.launcher.activation import Request, activate, read_mesh_address
from keyhouse.launcher.anchors import anchors, simulated_identity
from keyhouse.launcher.credentials import Credentials, make_credentials, quote_over, read_names
from keyhouse.launcher.name_resolution import run, within
from keyhouse.launcher.parameters import Delivered
from keyhouse.launcher.reports import ProgressReport
from keyhouse.launcher.retries import MonotonicClock, retry
from keyhouse.launcher.settings import RunSettings
from keyhouse.launcher.trust import Anchor
from keyhouse.launcher.uuid_file import own_uuid

if TYPE_CHECKING:
    from keyhouse.attestation import Platform

_UNVERIFIED: Final = (
    "the coordinator is NOT verified: an attacker can deliver any parameters to this program; pass"
    " --attestation or --root-certificate"
)
_AGAIN_WITHIN: Final = 60.0  # seconds for an activation while the program runs


class WorkloadJoiner:
    """Joins the deployment of ``settings``, as often as necessary, with the same identity."""

    def __init__(self, settings: RunSettings, report: ProgressReport) -> None:
        """Read the names, the UUID and the trusted certificates that ``settings`` name.

        ``report`` receives warnings and progress. Raises ``KeyhouseError``.
        """
        self._settings = settings
        self._report = report
        self.address = read_mesh_address(settings.coordinator)
        self._names = read_names(settings.dns_names)
        self._find_anchor = anchors(settings)
        if settings.unverified_coordinator:
            report.warning(_UNVERIFIED)
        self.who = own_uuid(settings.uuid_file)

    @cached_property
    def platform(self) -> "Platform | None":
        """The platform that makes quotes. None: no platform was found, and quotes are empty."""
        return _platform(self._settings, self._report)

    def fresh(self) -> Credentials:
        """Return a new key, with its signing request for the names of this workload."""
        return make_credentials(self._names)

    def join(self) -> Delivered:
        """Join the deployment, with retries until the timeout. Return the delivered parameters."""
        credentials = self.fresh()
        quote = self._quote_once(credentials)
        self._report.progress(f"joining {self.address} as {self._settings.type}, UUID {self.who}")
        clock = MonotonicClock()

        def attempt(seconds: float) -> Delivered:
            end, find = clock.now() + seconds, self._find_anchor
            request = self._request(credentials, quote())
            anchor = within(seconds, lambda: find(seconds)) if find is not None else None
            return run(activate(request, anchor, max(end - clock.now(), 0)))

        def report_retry(error: UnavailableError, pause: float) -> None:
            self._report.progress(f"{error.message}; trying again in {pause:.1f} s")

        seconds = self._settings.timeout
        return retry(attempt, seconds=seconds, clock=clock, on_retry=report_retry)

    async def join_again(self, root: bytes) -> Delivered:
        """Join the deployment under ``root`` (DER) once more, without retries.

        Raises as ``activate``.
        """
        credentials = self.fresh()
        request = self._request(credentials, self._quote_once(credentials)())
        return await activate(request, Anchor(root), _AGAIN_WITHIN)

    def _request(self, credentials: Credentials, quote: bytes) -> Request:
        return Request(self.address, credentials, quote, self._settings.type, self.who)

    def _quote_once(self, credentials: Credentials) -> Callable[[], bytes]:
        """Return a function that makes the quote over ``credentials`` at its first call.

        Further calls return the same bytes. Empty bytes: this machine has no platform for quotes.
        """

        @cache
        def quote() -> bytes:
            platform = self.platform
            return quote_over(credentials.certificate, platform) if platform is not None else b""

        return quote


def _platform(settings: RunSettings, report: ProgressReport) -> "Platform | None":
    try:
        name = platform_name(settings.platform)
    except PlatformMissingError:
        report.warning(
            "no platform was found, so the quote is empty: only a SIMULATED coordinator accepts"
            " an empty quote"
        )
        return None
    if name == "simulation":
        report.warning("SIMULATION: the quote proves nothing")
        if not (settings.simulated_machine / "simulation").is_dir():
            raise PlatformMissingError(
                f"there is no simulated machine in {settings.simulated_machine}",
                hint="name the coordinator's state directory: --simulated-machine DIRECTORY",
            )
    identity = simulated_identity(settings.simulated_identity)
    return open_for_quotes(name, settings.simulated_machine.absolute(), simulated=identity)
