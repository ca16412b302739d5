"""A deployment under test: a coordinator, its users, and the workloads that join it."""

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
from keyhouse.testing.coordinator import Coordinator, MovableClock, Ports
from keyhouse.testing.identities import ConfidentialVm, Enclave, SnpVm
from keyhouse.testing.marble import Marble, marble_of
from keyhouse.testing.process import Joined, start
from keyhouse.wire.address import Address

_LIFETIME: Final = timedelta(days=3650)  # tests let years pass


class DeploymentUser(msgspec.Struct, frozen=True):
    """A user: ``certificate`` belongs into the manifest, ``identity`` to the SDK."""

    certificate: str  # PEM
    identity: PemIdentity


def make_user(name: str) -> DeploymentUser:
    """Return a new user with a certificate for ten years, signed by itself."""
    identity = make_command_user(name, _LIFETIME)
    return DeploymentUser(identity.certificate.decode(), identity)


T = TypeVar("T")

Runs = Enclave | ConfidentialVm | SnpVm
"""What a workload runs in."""

_HERE: Final = "127.0.0.1"
_PATIENCE: Final = 30.0  # seconds for an activation


class Deployment:
    """A coordinator on the simulated platform, as a context manager.

    ``manifest``: what it enforces, JSON or what becomes it; None: it waits for its first one, which
    ``set_manifest`` sets. ``folder`` is its state directory (0700; a temporary one if not given);
    opened again it has the same deployment, at no earlier time than that of its last change, on a
    machine with the same TCB status. ``certificate_days``: how long
    certificates of workloads are good, as the setting of ``keyhouse serve``. ``ago``: how long
    before the machine's time it begins; ``advance`` leads it to the present, with a past.

    Raises ``PlatformMissingError`` without the distribution keyhouse-simulation, and
    ``CallRefusedError`` for a manifest that has problems.
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
            coordinator = Coordinator(self.folder, self.clock, self._certificate_days)
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
        """The state directory. ``simulation`` in it has what verifies the coordinator's quotes."""
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
        """The coordinator, whose quote has been verified."""
        assert self._trusted is not None, "enter the context first"  # noqa: S101 a test kit
        return self._trusted

    @property
    def root(self) -> x509.Certificate:
        """The deployment's root certificate."""
        return x509.load_der_x509_certificate(self.trusted.root_der)

    def client(self, identity: UserIdentity | None = None) -> CoordinatorClient:
        """Return a session of the SDK with the coordinator, as a user or anonymous; close it."""
        return CoordinatorClient(self.trusted, identity)

    def set_manifest(self, manifest: Mapping[str, Any] | bytes) -> dict[str, bytes]:
        """Set the first manifest; return the recovery secrets by key name, as the SDK does."""
        with self.client() as client:
            return client.set_manifest(_bytes(manifest))

    def advance(self, by: timedelta) -> None:
        """Let the coordinator's time jump ahead; collateral that ends by that is renewed.

        Processes, and what a test itself verifies, keep the machine's time.
        """
        self.clock.advance(by)
        self._keep_up()

    def set_tcb(self, status: TcbStatus | str, advisories: Sequence[str] = ()) -> None:
        """Let the vendor of the machine say from now on that its TCB has this ``status``.

        It is what a TCB recovery does to machines that were not updated: ``OutOfDate``, or
        ``SWHardeningNeeded`` with the ``advisories`` that they are open to. Activations are checked
        against it at once. Raises ``ValueError`` for an unknown status, and for ``Revoked``: no
        quote of such a machine verifies, so there is nothing that a package could accept.
        """
        if isinstance(advisories, str):
            raise TypeError(f"the advisories are a list: set_tcb({status!r}, [{advisories!r}])")
        wanted = TcbStatus(status)
        if wanted is TcbStatus.REVOKED:
            raise ValueError("a machine that is revoked makes no quotes that verify")
        self._keep_up(SimulatedTcb(wanted, tuple(advisories)))

    def activate(
        self,
        kind: str,
        enclave: Runs | None,
        *,
        names: str = "localhost",
        who: uuid.UUID | None = None,
    ) -> Marble:
        """Return the workload of type ``kind`` that runs in ``enclave`` or a VM, in this process.

        It is what ``keyhouse run`` does, without files and program. ``enclave``: None shows no
        quote, which only simulated coordinators accept. ``names`` for the certificate,
        comma-separated. ``who``: which instance; a new one if not given.

        Raises ``ActivationRefusedError`` with the coordinator's words, ``NotReadyError`` without a
        manifest.
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
        """Return the process that joins as a ``kind`` and becomes ``program``, in ``folder``.

        It is a real ``keyhouse run``: files are written below ``folder``, the UUID file too. It has
        the variables ``env`` and those of the manifest. It is ended with the deployment.
        """
        if isinstance(program, str):
            raise TypeError(f"the program is a list: its path, then its arguments: [{program!r}]")
        words = (
            *("--coordinator", self.workload_api, "--type", kind, "--dns-names", names),
            *("--platform", "simulation", "--simulated-machine", str(self.folder.absolute())),
            *("--simulated-identity", str(self._kept("identity.json", enclave.identity_file))),
            *("--root-certificate", str(self._kept("root.pem", self.root.public_bytes(_PEM)))),
        )
        joined = start([*words, "--", *program], folder, env or {})
        self._ends.callback(joined.stop)
        return joined

    def _verified(self) -> TrustedCoordinator:
        machine = self.folder / "simulation"
        expected = read_expected_identity((machine / "attestation.json").read_bytes())
        return verify_coordinator(
            self.client_api,
            # What ``set_tcb`` said of the machine before is about the workloads.
            expected=replace(expected, accepted_tcb_statuses=tuple(TcbStatus)),
            root_ca_der=self._machine(None).root_ca,
            collateral=read_collateral((machine / "collateral.json").read_bytes()),
            now=self.clock.moment(),
        )

    def _machine(self, enclave: Runs | None) -> Platform:
        """Return the simulated machine as ``enclave`` sees it; None: the coordinator."""
        now, folder = self.clock.moment, self.folder / "simulation"
        machine = simulation()(folder, now=now, upkeep=False)
        return machine if enclave is None else machine.seen_by(enclave.measurements)

    def _keep_up(self, tcb: SimulatedTcb | None = None) -> None:
        """Let the collateral be of this time, and say ``tcb``; None: what it says already."""
        simulation()(self.folder / "simulation", now=self.clock.moment, tcb=tcb)

    def _kept(self, name: str, content: bytes) -> Path:
        """Return a new file with ``content``, which is removed with the deployment."""
        folder = self._ends.enter_context(tempfile.TemporaryDirectory(prefix="keyhouse-testing-"))
        path = Path(folder) / name
        path.write_bytes(content)
        return path


_PEM: Final = Encoding.PEM


def _bytes(manifest: Mapping[str, Any] | bytes) -> bytes:
    return manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Return what ``work`` returns, also if the caller runs on an event loop itself."""
    with ThreadPoolExecutor(1, thread_name_prefix="activate") as thread:
        return thread.submit(asyncio.run, work).result()
