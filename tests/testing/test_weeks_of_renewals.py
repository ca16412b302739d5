"""A workload renews over weeks of the kit's clock, while the deployment around it changes."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from support.living.any_time import AnyTimeWorkload
from support.living.channel import RunningWorkload, refusal

from keyhouse.attestation.kinds.table import in_transport
from keyhouse.base.secret import Secret
from keyhouse.testing import Deployment, enclave, make_user
from keyhouse.wire import workload_pb2 as wire
from keyhouse.wire.secret_types import UserSecret

ADMIN = make_user("admin")
CODE = {version: enclave("app", security_version=version) for version in (1, 2)}

DAYS = 42
EACH = timedelta(hours=11)
"""Time between renewals of a certificate for a day."""


def manifest(version: int = 1, argument: str = "") -> dict[str, Any]:
    """Return the manifest with this security version of the code, and this argument."""
    return {
        "Packages": {"app": CODE[version].package_by_signer},
        "Marbles": {
            "app": {
                "Package": "app",
                "MaxActivations": 20,
                "Renewal": {"ValidMinutes": 24 * 60},
                "Parameters": {
                    "Files": {"/token": "{{ raw .Secrets.token }}"},
                    "Argv": ["app", argument],
                },
            }
        },
        "Secrets": {"token": {"Type": "plain", "UserDefined": True}},
        "Users": {"admin": {"Certificate": ADMIN.certificate, "Roles": ["all", "write", "guard"]}},
        "Roles": {
            "all": {"ResourceType": "Manifest", "Actions": ["UpdateManifest"]},
            "write": {
                "ResourceType": "Secrets",
                "ResourceNames": ["token"],
                "Actions": ["WriteSecret"],
            },
            "guard": {
                "ResourceType": "Marbles",
                "ResourceNames": ["app"],
                "Actions": ["RevokeWorkload"],
            },
        },
        "Config": {"Trust": {"OverlapHours": 36}},
    }


class Weeks:
    """A deployment that runs for weeks, with restarts, and a workload in it."""

    def __init__(self, folder: Path, ends: ExitStack) -> None:
        self.ends = ends
        self.folder = folder
        self.version = 1
        self.token = b"first"
        self.deployment = self.ends.enter_context(Deployment(manifest(), folder=folder))
        self.upload(self.token)
        self.workload = AnyTimeWorkload(self.port)

    @property
    def port(self) -> int:
        """The port of the workload API."""
        return int(self.deployment.workload_api.rpartition(":")[2])

    def restart(self) -> None:
        """Continue the deployment in a new coordinator, at its last journalled time."""
        self.ends.close()
        self.deployment = self.ends.enter_context(Deployment(folder=self.folder))
        self.workload.port = self.port

    def upload(self, token: bytes) -> None:
        """Upload another value of the secret."""
        with self.deployment.client(ADMIN.identity) as client:
            client.write_secrets({"token": UserSecret(key=Secret(token))})
        self.token = token

    def update(self, **changes: Any) -> None:
        """Apply an update of the only administrator."""
        raw = json.dumps(manifest(self.version, **changes)).encode()
        with self.deployment.client(ADMIN.identity) as client:
            client.update(raw)

    def revoke_another(self) -> None:
        """Revoke another workload of the type, which is then refused."""
        other = AnyTimeWorkload(self.port)
        other.renew(self.prove())
        with self.deployment.client(ADMIN.identity) as client:
            client.revoke("app", other.uuid)
        assert refused(other, "Fetch") == "revoked"

    def revoke_the_type(self) -> None:
        """Revoke the type. The workload has to prove itself again."""
        with self.deployment.client(ADMIN.identity) as client:
            client.revoke("app")
        assert refused(self.workload, "Watch") == "renew-first"

    def raise_version(self) -> None:
        """Raise the version of the code. The workload starts again with the new code."""
        former = self.prove()
        self.version += 1
        self.update()
        assert refusal(lambda: self.workload.renew(former)).code == "forbidden"
        self.workload = AnyTimeWorkload(self.port)

    def prove(self) -> Callable[[bytes], bytes]:
        """Return the maker of evidence in the present version of the code."""
        machine = self.deployment._machine(CODE[self.version])
        return lambda bound: in_transport(machine.quote(bound))

    def renew(self) -> Any:
        """Renew, and verify the certificate and the parameters."""
        renewed = self.workload.renew(self.prove())
        leaf = x509.load_der_x509_certificate(renewed.chain[0])
        root = x509.load_der_x509_certificate(renewed.marble_roots[0])
        leaf.verify_directly_issued_by(root)
        assert (
            leaf.not_valid_before_utc <= self.deployment.clock.moment() < leaf.not_valid_after_utc
        )
        fetched = self.workload.call("Fetch", wire.FetchRequest())
        assert fetched.files["/token"].piece[0].data == self.token
        return renewed

    def activations(self) -> int:
        """Return the number of counted activations."""
        with self.deployment.client(ADMIN.identity) as client:
            return client.counters().limits["app"].activations


def test_a_workload_renews_for_six_weeks(tmp_path: Path) -> None:
    with ExitStack() as ends:
        weeks = Weeks(tmp_path / "data", ends)
        activated, roots = 1, set[bytes]()
        for step in range(timedelta(days=DAYS) // EACH):
            match step % 20:
                case 2:
                    weeks.update(argument=str(step))
                case 5:
                    weeks.restart()
                case 8:
                    weeks.upload(b"token %d" % step)
                case 11:
                    weeks.revoke_another()
                    activated += 1
                case 14:
                    weeks.revoke_the_type()
                case 17:
                    # The workload is away for longer than its certificate is valid.
                    weeks.deployment.advance(timedelta(hours=30))
                    assert refused(weeks.workload, "Fetch") == "renew-first"
                case 19 if weeks.version == 1:
                    weeks.raise_version()
                    activated += 1
            renewed = weeks.renew()
            roots.add(renewed.marble_roots[0])
            weeks.deployment.advance(EACH)
        assert len(roots) == 7  # the first, five updates, and the raised version
        assert weeks.activations() == activated
        weeks.restart()
        weeks.renew()
        weeks.deployment.advance(timedelta(days=3))
        assert refused(weeks.workload, "Challenge") == "activate-again"


def refused(workload: RunningWorkload, method: str) -> str:
    """Return the code of the refusal of ``method``."""
    message: Any = {
        "Fetch": wire.FetchRequest(),
        "Watch": wire.WatchRequest(once=True),
        "Challenge": wire.ChallengeRequest(),
    }[method]
    code: str = refusal(lambda: workload.call(method, message)).code
    return code
