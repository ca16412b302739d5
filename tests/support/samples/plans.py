"""A deployment in the pure core alone, to compare a plan with the effects of its update."""

import json
from collections.abc import Callable
from functools import cache

from keyhouse.authority import CoordinatorKeys, make_coordinator_keys
from keyhouse.base.secret import Secret
from keyhouse.coordinator import (
    AcceptingManifest,
    Activated,
    Command,
    Running,
    SentUpdate,
    prepare_manifest,
    prepare_plan,
    prepare_update,
    prepare_upload,
)
from keyhouse.coordinator.core.commands import Activate, InitiateUpdate, UpdatePackages
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.decide import decide
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.wire.plan import PlanChange, PlanData
from keyhouse.wire.secret_types import UserSecret
from support.samples import updates
from support.samples.deployment import NOW, moment, user
from support.samples.updates import Document

__all__ = ["Deployment", "brief", "document", "encoded", "raised"]


def document() -> Document:
    """Return a manifest with many kinds of entries. ``alice`` alone may update it.

    ``writer`` may write ``note`` and ``other``. ``releaser`` may raise ``app``.
    """
    content = updates.document(["alice"], ["rk0"], UpdateThreshold=1)
    content["Packages"] |= {
        "tool": {"UniqueID": "cd" * 32},
        "vm": {"TDX": {"MRTD": "00" * 48, "RTMR1": "01" * 48, "RTMR2": "02" * 48}},
    }
    content["Marbles"] = {
        "web": {
            "Package": "app",
            "Parameters": {
                "Env": {"KEY": "{{ hex .Secrets.shared }}", "OWN": "{{ hex .Secrets.own }}"},
                "Files": {"/cert": "{{ pem .Secrets.cert.Cert }}"},
                "Argv": ["./web"],
            },
            "TLS": ["inside"],
        },
        "job": {"Package": "tool", "MaxActivations": 5},
    }
    content["TLS"] = {"inside": {"Incoming": [{"Port": "7000"}]}}
    content["Secrets"] |= {
        "own": {"Type": "symmetric-key", "Size": 256},
        "cert": {"Type": "cert-ecdsa", "Size": 256, "Shared": True},
        "leaf": {"Type": "cert-ed25519"},
        "other": {"Type": "plain", "UserDefined": True},
    }
    content["Roles"]["write"]["ResourceNames"].append("other")
    return content


def encoded(change: Callable[[Document], object] = lambda _: None) -> bytes:
    """Return the manifest after ``change``."""
    content = document()
    change(content)
    return json.dumps(content).encode()


def raised(**versions: int) -> bytes:
    """Return a package update with these security versions."""
    packages = {name: {"SecurityVersion": version} for name, version in versions.items()}
    return json.dumps({"Packages": packages}).encode()


def brief(change: PlanChange) -> str:
    """Return a change in one line, without its section and its sentence."""
    step = f"{change.before} > {change.after}" if change.before or change.after else ""
    parts = (change.what, change.name, change.field, step, ", ".join(change.names))
    return " | ".join(part for part in parts if part)


@cache
def _keys() -> CoordinatorKeys:
    return make_coordinator_keys(
        dns_names=("localhost",), ip_addresses=(), curve="P-256", now=moment(NOW), simulated=True
    )


class Deployment:
    """A state, and the users' actions on it."""

    def __init__(self, raw: bytes) -> None:
        first = AcceptingManifest(keys=_keys())
        events = decide(first, prepare_manifest(first, raw, now=NOW), _CONTEXT)
        state = evolve_all(first, events)
        assert isinstance(state, Running)
        self.state = state

    def do(self, command: Command) -> None:
        """Decide ``command`` and apply it."""
        state = evolve_all(self.state, decide(self.state, command, _CONTEXT))
        assert isinstance(state, Running)
        self.state = state

    def upload(self, **values: bytes) -> None:
        """Upload ``values`` as ``writer``."""
        uploads = {name: UserSecret(key=Secret(value)) for name, value in values.items()}
        self.do(prepare_upload(self.state, user("writer").der, uploads))

    def activate(self, marble: str, times: int) -> None:
        """Activate a type with a limit ``times`` times."""
        for _ in range(times):
            activated = Activated(
                time=NOW,
                marble_type=marble,
                uuid="11111111-2222-3333-4444-555555555555",
                names=(),
                counted=True,
                quoted=False,
            )
            self.do(
                Activate(
                    manifest=self.state.manifest,
                    intermediate=self.state.keys.intermediate_cert,
                    activated=activated,
                )
            )

    def plan(self, raw: bytes, by: str = "alice") -> PlanData:
        """Return the plan of the update ``raw``."""
        return prepare_plan(self.state, user(by).der, raw, now=NOW)

    def prepare(
        self, raw: bytes, by: str = "alice", plan: str = ""
    ) -> InitiateUpdate | UpdatePackages:
        """Prepare an update; ``plan`` empty: not bound to a plan."""
        return prepare_update(self.state, SentUpdate(user(by).der, raw, plan=plan), now=NOW)


_CONTEXT = Context(
    now=NOW, platform="test", instance=bytes(16), version="0.1.0", measurement=bytes(32)
)
