"""Screenshots of the console: every page in both themes, of an example deployment.

``scripts/pictures --console`` makes the screenshots with Debian's Chromium. No test compares them.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from keyhouse.base.secret import Secret
from keyhouse.client import SecretUpload
from keyhouse.client.contexts import Contexts, SavedContext, write
from keyhouse.testing import ActivationRefusedError, Deployment, DeploymentUser, enclave, make_user

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["take_pictures"]

_FOLDER: Final = Path(__file__).parents[2] / "docs/pictures/console"
_PAGES: Final = {
    "trust": "trust",
    "manifest": "manifest?section=Marbles",
    "picture": "manifest/picture",
    "compare": "manifest/compare",
    "updates": "updates",
    "secrets": "secrets",
    "workloads": "workloads",
    "refused": "workloads?show=refused",
    "history": "history",
    "recovery": "recovery",
}
_WIDTH, _HEIGHT = 1280, 800
_PEOPLE: Final = ("alice", "bob", "carol")
_ROLES: Final = (["owner", "operator"], ["owner"], ["owner", "auditor"])
_HOLDERS: Final = ("north", "south", "vault")
_ORDERS: Final = enclave("orders", signer="shop", security_version=2)


def take_pictures() -> None:
    """Write the screenshots of all pages."""
    people = {name: make_user(name) for name in _PEOPLE}
    chance = random.Random(7)  # noqa: S311 a picture
    day = [timedelta(minutes=chance.randint(10, 50)) for _ in range(26)]
    with (
        tempfile.TemporaryDirectory(prefix="keyhouse-") as place,
        Deployment(
            json.dumps(_manifest(people, image="2026-11")).encode(), ago=sum(day, timedelta())
        ) as deployment,
    ):
        home = Path(place)
        _live(deployment, people, day, chance)
        for name, user in people.items():
            (home / f"{name}.crt").write_bytes(user.identity.certificate)
            (home / f"{name}.key").write_bytes(user.identity.key.reveal())
        with _console(home, deployment) as link:
            _photographed(link, lambda: _propose(deployment, people))


def _manifest(people: dict[str, DeploymentUser], image: str) -> dict[str, Any]:
    """Return the manifest of a shop: three types of workloads, and their secrets."""
    return {
        "Packages": {
            "web": enclave("web", signer="shop").package,
            "orders": _ORDERS.package_by_signer,
            "ledger": {
                **enclave("ledger", signer="shop").package,
                "AcceptedTCBStatuses": ["UpToDate"],
            },
        },
        "Marbles": _marbles(image),
        "Secrets": {
            "sessionKey": {"Type": "symmetric-key", "Size": 256, "Shared": True},
            "ledgerKey": {"Type": "symmetric-key", "Size": 256},
            "databasePassword": {"Type": "plain", "UserDefined": True},
            "ordersCert": {"Type": "cert-ecdsa", "Size": 256, "ValidFor": 30, "Shared": True},
            "paymentToken": {"Type": "plain", "UserDefined": True},
        },
        "Users": {
            name: {"Certificate": user.certificate, "Roles": roles}
            for (name, user), roles in zip(people.items(), _ROLES, strict=True)
        },
        "Roles": _roles(),
        "RecoveryKeys": {name: _recovery_key() for name in _HOLDERS},
        "Config": {"UpdateThreshold": 2, "RecoveryThreshold": 2},
    }


def _marbles(image: str) -> dict[str, Any]:
    web = {"SESSION_KEY": "{{ hex .Secrets.sessionKey }}", "IMAGE": image}
    return {
        "web": {"Package": "web", "Parameters": {"Env": web}},
        "orders": {
            "Package": "orders",
            "Parameters": {
                "Env": {"DATABASE": "{{ string .Secrets.databasePassword }}"},
                "Files": {"/tls.pem": "{{ pem .Secrets.ordersCert.Cert }}"},
            },
        },
        "ledger": {
            "Package": "ledger",
            "MaxActivations": 12,
            "Parameters": {"Env": {"KEY": "{{ hex .Secrets.ledgerKey }}"}},
        },
    }


def _roles() -> dict[str, Any]:
    uploaded = ["databasePassword", "paymentToken"]
    return {
        "owner": {"ResourceType": "Manifest", "Actions": ["UpdateManifest"]},
        "operator": _role(uploaded, "ReadSecret", "WriteSecret"),
        "auditor": _role(["sessionKey"], "ReadSecret"),
    }


def _role(secrets: list[str], *actions: str) -> dict[str, Any]:
    return {"ResourceType": "Secrets", "ResourceNames": secrets, "Actions": list(actions)}


def _recovery_key() -> str:
    key = rsa.generate_private_key(65537, 3072).public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def _live(
    deployment: Deployment,
    people: dict[str, DeploymentUser],
    day: list[timedelta],
    chance: random.Random,
) -> None:
    """Upload secrets, and activate workloads at the times of a ``day``."""
    with deployment.client(people["alice"].identity) as alice:
        alice.write_secrets({"databasePassword": SecretUpload(key=Secret(b"kept elsewhere"))})
    builds = {"web": enclave("web", signer="shop"), "orders": _ORDERS}
    builds["ledger"] = enclave("ledger", signer="shop")
    for wait in day:
        for kind in chance.choices(tuple(builds), (8, 4, 1), k=chance.randint(0, 4)):
            deployment.activate(kind, builds[kind], names=f"{kind}.example.com")
        deployment.advance(wait)
        if wait in day[-9:-6]:  # repeated starts of an old image
            with suppress(ActivationRefusedError):
                old = enclave("orders", signer="shop", security_version=1)
                deployment.activate("orders", old, names="orders.example.com")
    with suppress(ActivationRefusedError):
        deployment.activate("order", _ORDERS)


def _propose(deployment: Deployment, people: dict[str, DeploymentUser]) -> None:
    changed = _manifest(people, image="2026-12")
    with deployment.client() as anybody:
        changed["RecoveryKeys"] = json.loads(anybody.manifest().manifest)["RecoveryKeys"]
    changed["Marbles"]["web"]["Parameters"]["Env"]["TOKEN"] = "{{ string .Secrets.paymentToken }}"  # noqa: S105 a template
    changed["Secrets"]["auditKey"] = {"Type": "symmetric-key", "Size": 256, "Shared": True}
    del changed["Roles"]["auditor"]
    changed["Users"]["carol"]["Roles"] = ["owner"]
    with deployment.client(people["bob"].identity) as bob:
        bob.update(json.dumps(changed).encode())


@contextmanager
def _console(home: Path, deployment: Deployment) -> Iterator[str]:
    """Run the console for alice, and yield the link."""
    machine = deployment.folder / "simulation"
    context = SavedContext(
        address=deployment.client_api,
        attestation=str(machine / "attestation.json"),
        simulation_root=str(machine / "root.pem"),
        cert=str(home / "alice.crt"),
        key=str(home / "alice.key"),
    )
    write(home / ".config/keyhouse/contexts.toml", Contexts("shop", {"shop": context}))
    command = [str(Path(sys.executable).with_name("keyhouse")), "console", "--json"]
    with subprocess.Popen(  # noqa: S603 our own program
        command,
        stdout=subprocess.PIPE,
        env={**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": ""},
    ) as process:
        try:
            yield json.loads((process.stdout or sys.stdin.buffer).readline())["link"]
        finally:
            process.send_signal(signal.SIGTERM)


def _photographed(link: str, propose: Callable[[], None]) -> None:
    """Make all screenshots.

    ``propose`` proposes an update as a second user, after the screenshot of the editor.
    """
    from playwright.sync_api import sync_playwright

    _FOLDER.mkdir(exist_ok=True)
    program = shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, chromium_sandbox=os.geteuid() != 0
        )
        page = browser.new_page(
            viewport={"width": _WIDTH, "height": _HEIGHT}, reduced_motion="reduce"
        )
        page.goto(link)
        page.wait_for_url("**/trust", wait_until="commit")
        base = page.url.removesuffix("trust")
        _write(page, base)
        _shoot(page, "editor")
        page.click("text=Clear the text")
        propose()
        for name, path in _PAGES.items():
            page.goto(base + path)
            _shoot(page, name)
        browser.close()


def _write(page: "Page", base: str) -> None:
    """Write a changed manifest into the editor, and show the plan."""
    page.goto(f"{base}updates?from=force")
    text = page.input_value("#manifest-text")
    page.fill("#manifest-text", text.replace("2026-11", "2026-12"))
    page.click("text=Show the plan")
    page.wait_for_selector(".plan")


def _shoot(page: "Page", name: str) -> None:
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.screenshot(path=_FOLDER / f"{name}-{theme}.png")
