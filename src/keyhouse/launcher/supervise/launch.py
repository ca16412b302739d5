"""The start of a supervised program: join, renew, fetch, start, and wait for the end."""

import signal
import threading
from collections.abc import Mapping

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from msgspec.structs import replace

from keyhouse.base.process.hardening import return_free_memory
from keyhouse.base.process.threads import start_without_signals
from keyhouse.base.secret import Secret
from keyhouse.launcher.credentials import Credentials
from keyhouse.launcher.joining import WorkloadJoiner
from keyhouse.launcher.name_resolution import run
from keyhouse.launcher.parameters import Delivered
from keyhouse.launcher.program import Program, program_of
from keyhouse.launcher.reports import ProgressReport
from keyhouse.launcher.settings import RunSettings
from keyhouse.launcher.supervise.agent import Agent, Needs
from keyhouse.launcher.supervise.certificates import Identity
from keyhouse.launcher.supervise.channel_connection import SupervisedWorkload
from keyhouse.launcher.supervise.file_sets import FileSet
from keyhouse.launcher.supervise.notifications import Notifications, without_notifications
from keyhouse.launcher.supervise.orders import OrderQueue, Reload, Start
from keyhouse.launcher.supervise.processes import WAKE, Processes
from keyhouse.launcher.supervise.supervisor import StoppedError, Supervisor
from keyhouse.launcher.trust import has_lineage

_ROOT = "MARBLE_PREDEFINED_COORDINATOR_ROOT_CA"
_MARBLE_ROOT = "MARBLE_PREDEFINED_ROOT_CA"
_CHAIN = "MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN"
_KEY = "MARBLE_PREDEFINED_PRIVATE_KEY"


def supervise(
    settings: RunSettings,
    environment: Mapping[bytes, bytes],
    joiner: WorkloadJoiner,
    report: ProgressReport,
) -> int:
    """Join, start the program, and return its exit code after its end.

    ``environment``: the environment of the launcher, for the program. Raises ``KeyhouseError`` if
    the program cannot start.
    """
    delivered = joiner.join()
    files, processes = FileSet(), Processes()
    main = threading.get_ident()
    orders = OrderQueue(lambda: signal.pthread_kill(main, WAKE))
    inherited = without_notifications(environment)

    def program(given: Delivered) -> Program:
        return replace(program_of(settings.words, inherited, given), files=given.files)

    first = identity_of(delivered)
    if has_lineage(first.own.certificate):
        workload = SupervisedWorkload(
            joiner.address, _der(delivered, _ROOT), settings.type, joiner.who
        )

        async def activate() -> Identity:
            return identity_of(await joiner.join_again(workload.root))

        needs = Needs(
            workload=workload,
            platform=joiner.platform,
            fresh=joiner.fresh,
            activate=activate,
            program_of=program,
            progress=report.progress,
            warning=report.warning,
            renew_every=settings.renew_every,
            timeout=settings.timeout,
        )
        agent = Agent(needs, first, files, orders)
        work = threading.Thread(target=lambda: run(agent.run()), name="agent", daemon=True)
        start_without_signals(work)
    else:
        report.warning(
            "the marble type has no Renewal in the manifest: certificate and files do not change"
            " while the program runs"
        )
        files.replace(delivered.files, sorted(delivered.files))
        orders.send(Start(program(delivered), Reload()))
    return_free_memory()
    supervisor = Supervisor(
        processes,
        orders,
        Notifications(environment),
        stop_after=settings.stop_after,
        progress=report.progress,
        warning=report.warning,
    )
    try:
        return supervisor.run()
    except StoppedError as stopped:
        files.remove()
        return stopped.code
    except BaseException:
        files.remove()
        raise


def identity_of(delivered: Delivered) -> Identity:
    """Return the certificate and the key in ``delivered``, the parameters of an activation.

    The launcher has verified both before.
    """
    leaf, intermediate = x509.load_pem_x509_certificates(delivered.env[_CHAIN].reveal())
    key = load_pem_private_key(delivered.env[_KEY].reveal(), None)
    own = Credentials(
        Secret(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())),
        leaf.public_bytes(Encoding.DER),
        b"",
    )
    return Identity(own, intermediate.public_bytes(Encoding.DER), _der(delivered, _MARBLE_ROOT))


def _der(delivered: Delivered, name: str) -> bytes:
    certificate = x509.load_pem_x509_certificate(delivered.env[name].reveal())
    return certificate.public_bytes(Encoding.DER)
