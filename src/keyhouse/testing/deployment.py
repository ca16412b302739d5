"""A deployment under test: a coordinator, its users, and its workloads."""

import asyncio
import json
import tempfile
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec.structs import replace

from keyhouse.attestation import Platform, TcbStatus, read_collateral, read_expected_identity
from keyhouse.attestation.platforms.find import SimulatedTcb, simulation
from keyhouse.client import (
    Coordinator as CoordinatorClient,
    PemIdentity,
    TrustedCoordinator,
    UserIdentity,
    verify_coordinator,
)
from keyhouse.client.identity import make_user as make_command_user
from keyhouse.launcher import Anchor, Request, activate, make_credentials, quote_over, read_names
from keyhouse.testing.coordinator import CoordinatorThread, MovableClock, Ports
from keyhouse.testing.identities import ConfidentialVm, Enclave, SnpVm
from keyhouse.testing.marble import Marble, marble_of
from keyhouse.testing.process import Joined, start
from keyhouse.wire.address import Address

# Tests advance the clock by years.
_LIFETIME: Final = timedelta(days=3650)


class DeploymentUser(msgspec.Struct, frozen=True):
    """A user. Put ``certificate`` into the manifest, and pass ``identity`` to the SDK."""

    certificate: str  # PEM
    identity: PemIdentity


def make_user(name: str) -> DeploymentUser:
    """Return a new user with a self-signed certificate for ten years."""
    identity = make_command_user(name, _LIFETIME)
    return DeploymentUser(identity.certificate.decode(), identity)


T = TypeVar("T")

Runs = Enclave | ConfidentialVm | SnpVm
"""The environment of a workload: an enclave or a confidential VM."""

_HERE: Final = "127.0.0.1"
# Seconds for an activation.
_PATIENCE: Final = 30.0


class Deployment:
    """A coordinator on the simulated platform, as a context manager.

    Args:
        manifest: the manifest to enforce, as JSON or as values for JSON. With None, the coordinator
            waits for ``set_manifest``.
        folder: the state directory (0700), by default a temporary directory. A second deployment
            with the same folder continues the first deployment: not before the time of the last
            change, and with the same TCB status of the machine.
        certificate_days: the validity of workload certificates, as in ``keyhouse serve``.
        ago: the deployment begins this long before the machine's time. ``advance`` then moves the
            deployment's time to the present, so the deployment has a past.

    Raises ``PlatformMissingError`` without the distribution keyhouse-simulation, and
    ``CallRefusedError`` for a manifest with problems.
    """

    def __init__(
        self,
        manifest: Mapping[str, Any] | bytes | None = None,
        *,
        folder: Path | None = None,
        certificate_days: int | None = None,
        ago: timedelta = timedelta(0),
    ) -> None:
        self.clock: Final = MovableClock(ago)
        self._manifest = manifest
        self._folder = folder
        self._certificate_days = certificate_days
        self._ends = ExitStack()
        self._ports = Ports(0, 0)
        self._trusted: TrustedCoordinator | None = None

    def __enter__(self) -> Self:
        with ExitStack() as ends:
            if self._folder is None:
                temporary = tempfile.TemporaryDirectory(prefix="keyhouse-testing-")
                ends.callback(setattr, self, "_folder", None)  # what comes later makes it again
                self._folder = Path(ends.enter_context(temporary)) / "data"
            coordinator = CoordinatorThread(self.folder, self.clock, self._certificate_days)
            ends.callback(coordinator.stop)
            self._ports = coordinator.start()
            self._trusted = self._verified()
            if self._manifest is not None:
                self.set_manifest(self._manifest)
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    @property
    def folder(self) -> Path:
        """The state directory. Its folder ``simulation`` verifies the coordinator's quotes."""
        assert self._folder is not None, "enter the context first"  # noqa: S101 a test kit
        return self._folder

    @property
    def client_api(self) -> str:
        """Address of the Client API."""
        return f"{_HERE}:{self._ports.client_api}"

    @property
    def workload_api(self) -> str:
        """Address of the workload API."""
        return f"{_HERE}:{self._ports.workload_api}"

    @property
    def trusted(self) -> TrustedCoordinator:
        """The coordinator after the verification of its quote."""
        assert self._trusted is not None, "enter the context first"  # noqa: S101 a test kit
        return self._trusted

    @property
    def root(self) -> x509.Certificate:
        """The deployment's root certificate."""
        return x509.load_der_x509_certificate(self.trusted.root_der)

    def client(self, identity: UserIdentity | None = None) -> CoordinatorClient:
        """Return a session of the SDK for the user ``identity``, or for anonymous calls (None).

        The caller closes the session.
        """
        return CoordinatorClient(self.trusted, identity)

    def set_manifest(self, manifest: Mapping[str, Any] | bytes) -> dict[str, bytes]:
        """Set the first manifest. Return the recovery secrets by key name, as the SDK does."""
        with self.client() as client:
            return client.set_manifest(_bytes(manifest))

    def advance(self, by: timedelta) -> None:
        """Advance the coordinator's time. Collateral that would expire is renewed.

        Processes, and verifications by the test itself, keep the machine's time.
        """
        self.clock.advance(by)
        self._renew_collateral()

    def set_tcb(self, status: TcbStatus | str, advisories: Sequence[str] = ()) -> None:
        """Let the vendor report the TCB ``status`` of the machine from now on.

        A TCB recovery has this effect on machines without the update: ``OutOfDate``, or
        ``SWHardeningNeeded`` with ``advisories``. The next activation is checked against the
        status. Raises ``ValueError`` for an unknown status, and for ``Revoked``: quotes of a
        revoked machine never verify, so no package can accept them.
        """
        if isinstance(advisories, str):
            raise TypeError(f"the advisories must be a list: set_tcb({status!r}, [{advisories!r}])")
        wanted = TcbStatus(status)
        if wanted is TcbStatus.REVOKED:
            raise ValueError("quotes of a revoked machine never verify: choose another status")
        self._renew_collateral(SimulatedTcb(wanted, tuple(advisories)))

    def activate(
        self,
        kind: str,
        enclave: Runs | None,
        *,
        names: str = "localhost",
        who: uuid.UUID | None = None,
    ) -> Marble:
        """Activate a workload of the marble type ``kind`` in this process, and return the workload.

        The method does the same as ``keyhouse run``, without files and without a program.
        ``enclave`` is the enclave or the VM of the workload. None: the workload sends no quote, and
        only simulated coordinators accept this. ``names`` are the names of the certificate,
        comma-separated. ``who`` is the UUID of the instance, by default a new UUID.

        Raises ``ActivationRefusedError`` with the coordinator's message, and ``NotReadyError``
        without a manifest.
        """
        credentials = make_credentials(read_names(names))
        quote = b""
        if enclave is not None:
            quote = quote_over(credentials.certificate, self._machine(enclave))
        address = Address(_HERE, self._ports.workload_api)
        request = Request(address, credentials, quote, kind, who or uuid.uuid4())
        delivered = _run(activate(request, Anchor(self.trusted.root_der), _PATIENCE))
        return marble_of(delivered)

    def launch(
        self,
        kind: str,
        enclave: Runs,
        program: Sequence[str],
        *,
        folder: Path,
        names: str = "localhost",
        env: Mapping[str, str] | None = None,
    ) -> Joined:
        """Start a process in ``folder`` that joins as the marble type ``kind``.

        The process is a real ``keyhouse run``, with a quote of ``enclave``. The process becomes
        ``program``, a list of the path and the arguments. The process writes files, including the
        UUID file, below ``folder``. It has the variables ``env`` and the variables of the manifest,
        and ends with the deployment. ``names`` are the names of the certificate, comma-separated.
        """
        if isinstance(program, str):
            raise TypeError(
                f"the program must be a list, with its path and then its arguments: [{program!r}]"
            )
        words = (
            *("--coordinator", self.workload_api, "--type", kind, "--dns-names", names),
            *("--platform", "simulation", "--simulated-machine", str(self.folder.absolute())),
            *("--simulated-identity", str(self._temp_file("identity.json", enclave.identity_file))),
            *("--root-certificate", str(self._temp_file("root.pem", self.root.public_bytes(_PEM)))),
        )
        joined = start([*words, "--", *program], folder, env or {})
        self._ends.callback(joined.stop)
        return joined

    def _verified(self) -> TrustedCoordinator:
        machine = self.folder / "simulation"
        expected = read_expected_identity((machine / "attestation.json").read_bytes())
        return verify_coordinator(
            self.client_api,
            # An earlier ``set_tcb`` concerns the workloads only.
            expected=replace(expected, accepted_tcb_statuses=tuple(TcbStatus)),
            root_ca_der=self._machine(None).root_ca,
            collateral=read_collateral((machine / "collateral.json").read_bytes()),
            now=self.clock.moment(),
        )

    def _machine(self, enclave: Runs | None) -> Platform:
        """Return the simulated platform for quotes of ``enclave``; None: of the coordinator."""
        now, folder = self.clock.moment, self.folder / "simulation"
        machine = simulation()(folder, now=now, upkeep=False)
        return machine if enclave is None else machine.seen_by(enclave.measurements)

    def _renew_collateral(self, tcb: SimulatedTcb | None = None) -> None:
        """Renew the collateral of the machine for the present time of the clock.

        ``tcb`` is the new TCB status of the machine; None keeps the present status.
        """
        simulation()(self.folder / "simulation", now=self.clock.moment, tcb=tcb)

    def _temp_file(self, name: str, content: bytes) -> Path:
        """Write ``content`` to a temporary file ``name``, and return its path.

        The end of the deployment removes the file.
        """
        folder = self._ends.enter_context(tempfile.TemporaryDirectory(prefix="keyhouse-testing-"))
        path = Path(folder) / name
        path.write_bytes(content)
        return path


_PEM: Final = Encoding.PEM


def _bytes(manifest: Mapping[str, Any] | bytes) -> bytes:
    return manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine ``work`` in a thread with its own event loop; return its result."""
    with ThreadPoolExecutor(1, thread_name_prefix="activate") as thread:
        return thread.submit(asyncio.run, work).result()
