"""A deployment for tests: manifests with real users, an engine over a real state directory."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from keyhouse.base.secret import Secret
from keyhouse.coordinator import Engine, MakeQuote, NewDeployment, Process, View, open_engine
from keyhouse.coordinator.core.state import Running
from keyhouse.coordinator.prepare import prepare_manifest, prepare_upload
from keyhouse.journal import DirectoryStorage
from keyhouse.wire.secret_types import UserSecret
from support.samples.fixed_keys import unused_rsa_key

NOW = 1_800_000_000_000_000
"""2027-01-15T08:00:00Z in microseconds: the tests' present."""

MACHINE = Secret(b"a machine's sealing secret of 32")


class User(NamedTuple):
    """A user of a manifest, with certificate and key for a client."""

    der: bytes
    pem: bytes
    key_pem: bytes


def _p256() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


KEYS: Final[
    dict[str, Callable[[], RSAPrivateKey | Ed25519PrivateKey | EllipticCurvePrivateKey]]
] = {
    "rsa": unused_rsa_key,
    "p-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "p-521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "ed25519": Ed25519PrivateKey.generate,
}
"""Functions that make the keys of users with these names."""


@cache
def user(name: str) -> User:
    """Return the user ``name``: the same in the whole test run.

    The key is a P-256 key, except for the names in ``KEYS``.
    """
    key = KEYS.get(name, _p256)()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:32])])
    start = datetime(2020, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=36500))
        .sign(key, None if isinstance(key, Ed25519PrivateKey) else hashes.SHA256())
    )
    return User(
        certificate.public_bytes(Encoding.DER),
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def manifest(secrets: int = 3, **config: Any) -> bytes:
    """Return a manifest with ``secrets`` user-defined 128-bit keys ``key0``, ``key1``, ....

    ``writer`` may read and write these keys and ``note``. ``reader`` may read ``shared`` and
    ``key0``. ``nobody`` has no role.
    """
    names = [f"key{number}" for number in range(secrets)]
    user_defined = {"Type": "symmetric-key", "Size": 128, "UserDefined": True}
    content: dict[str, Any] = {
        "Packages": {"app": {"UniqueID": "00" * 31 + "01"}},
        "Marbles": {"app": {"Package": "app"}},
        "Secrets": {
            "shared": {"Type": "symmetric-key", "Size": 256, "Shared": True},
            "note": {"Type": "plain", "UserDefined": True},
            **dict.fromkeys(names, user_defined),
        },
        "Users": {
            name: {"Certificate": user(name).pem.decode(), "Roles": roles}
            for name, roles in {"writer": ["write"], "reader": ["read"], "nobody": []}.items()
        },
        "Roles": {
            "write": {
                "ResourceType": "Secrets",
                "ResourceNames": [*names, "note"],
                "Actions": ["ReadSecret", "WriteSecret"],
            },
            "read": {
                "ResourceType": "Secrets",
                "ResourceNames": ["shared", *names[:1]],
                "Actions": ["ReadSecret"],
            },
        },
    }
    if config:
        content["Config"] = config
    return json.dumps(content).encode()


class FixedClock:
    """A clock that stands still until a test changes it."""

    def __init__(self, time: int = NOW) -> None:
        self.time = time
        self.passed = 0

    def now(self) -> int:
        return self.time

    def elapsed(self) -> int:
        return self.passed

    def let_pass(self, microseconds: int) -> None:
        self.time += microseconds
        self.passed += microseconds


def moment(time: int) -> datetime:
    """Return microseconds since 1970 as a datetime."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)


def new_process(platform: str = "test") -> Process:
    """Return the identity of a new process."""
    return Process(platform, os.urandom(16), "0.1.0", b"\x11" * 32)


async def open_storage(
    path: Path, machine: Secret = MACHINE, platform: str = "test"
) -> DirectoryStorage:
    """Return the storage at ``path``. ``machine`` is the sealing secret of the machine."""
    return await DirectoryStorage.open(
        path,
        platform_kind=platform,
        sealing_key=lambda policy: Secret(machine.reveal()[:16] + policy.encode().ljust(16)[:16]),
    )


@asynccontextmanager
async def running_engine(
    path: Path,
    clock: FixedClock | None = None,
    machine: Secret = MACHINE,
    process: Process | None = None,
    make_quote: MakeQuote | None = None,
) -> AsyncIterator[Engine]:
    """Open the deployment at ``path``, run its engine, and stop the engine in order."""
    async with engine_over(await open_storage(path, machine), clock, process, make_quote) as engine:
        yield engine


@asynccontextmanager
async def engine_over(
    storage: DirectoryStorage,
    clock: FixedClock | None = None,
    process: Process | None = None,
    make_quote: MakeQuote | None = None,
) -> AsyncIterator[Engine]:
    """Run an engine over ``storage``, and stop the engine in order."""
    try:
        engine = await open_engine(
            storage,
            clock=clock or FixedClock(),
            process=process or new_process(),
            new=NewDeployment("P-256", ("localhost",), ()),
            make_quote=make_quote,
            origin=None,
        )
    except BaseException:  # a refused start; Python 3.13 warns of an open database
        await storage.close()
        raise
    writing = asyncio.create_task(engine.run())
    try:
        yield engine
    finally:
        engine.queue.stop()
        await writing
        await engine.close()


@asynccontextmanager
async def crashing_engine(path: Path) -> AsyncIterator[Engine]:
    """Run an engine as ``running_engine`` does, but without an ordered stop at the end."""
    storage = await open_storage(path)
    engine = await open_engine(
        storage,
        clock=FixedClock(),
        process=new_process(),
        new=NewDeployment("P-256", ("localhost",), ()),
        origin=None,
    )
    writing = asyncio.create_task(engine.run())
    try:
        yield engine
    finally:
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing
        await storage.close()


async def set_manifest(engine: Engine, raw: bytes) -> View:
    """Set ``raw`` as the first manifest."""
    state = engine.view.state
    assert not isinstance(state, Running)
    return await engine.submit(prepare_manifest(state, raw, now=engine.current.now()))


async def upload(engine: Engine, values: Mapping[str, bytes], by: str = "writer") -> View:
    """Upload ``values`` as the user ``by``."""
    uploads = {name: UserSecret(key=Secret(value)) for name, value in values.items()}
    return await engine.submit(prepare_upload(engine.view.running, user(by).der, uploads))


def stored(view: View) -> dict[str, bytes]:
    """Return the values of all secrets of ``view``."""
    return {name: value.private.reveal() for name, value in view.running.secrets.items()}
