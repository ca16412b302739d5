"""A state invented by the host, with an own root key, any manifests and a known data key."""

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import asdict, replace

from keyhouse import authority
from keyhouse.attestation.quote.binding import entry_report_data
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.base import base_events
from keyhouse.coordinator.core.context import Context, moment
from keyhouse.coordinator.core.decide import decide
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import AcceptingManifest, LineItem, PublicLog, Running
from keyhouse.coordinator.core.update_log import UpdateLog
from keyhouse.coordinator.engine.log_signing import make_log_key
from keyhouse.coordinator.engine.records import encode_events
from keyhouse.coordinator.prepare import prepare_manifest
from keyhouse.journal import (
    DEK_SIZE,
    STORE_ID_SIZE,
    DirectoryStorage,
    Journal,
    LineMark,
    index_mac_key,
    log_name,
)
from keyhouse.journal.shared.log_parts import DatabaseParts
from keyhouse.journal.store.postgres import PostgresStore
from keyhouse.journal.store.postgres_database import PostgresDatabase
from keyhouse.journal.store.protocol import Beside, Position
from keyhouse.transparency.leaf import object_name
from keyhouse.transparency.line import Code, Created, ManifestEntry, encode_entry, hash_of
from support.samples.deployment import new_process

__all__ = ["InventedState", "invent", "with_line", "with_manifest"]

_UNKNOWN_MACHINE = Secret(b"a machine that no genuine code has")


class InventedState(NamedTuple):
    """A state as genuine code stores it, under a root key of the host."""

    running: Running
    update_log: UpdateLog
    dek: Secret
    store_id: bytes
    objects: tuple[bytes, ...] = ()  # of the log: manifests, and quotes of the line

    @property
    def root_der(self) -> bytes:
        """The certificate of the host's root key."""
        return self.running.keys.root_cert

    @property
    def base(self) -> list[bytes]:
        """The records of a journal that begins with this state."""
        return list(encode_events(base_events(self.running, self.update_log.view())))

    def recovery_index(self, epoch: int) -> bytes:
        """Return the recovery index of the state, for ``epoch``."""
        index = authority.index_of(
            self.running.recovery,
            self.running.keys,
            self.running.manifest,
            store_id=self.store_id,
            epoch=epoch,
        )
        mac_key = index_mac_key(self.dek, self.store_id, epoch)
        return authority.recovery_index(index, keys=self.running.keys, mac_key=mac_key)

    def write_directory(
        self,
        folder: Path,
        *,
        after: Position | None = None,
        sealed_key: bytes = b"",
        sealing: Callable[[str], Secret] | None = None,
        rule: bytes = b"",
    ) -> None:
        """Write this state into the directory ``folder``, in place of any earlier state.

        ``after``: the last place of the replaced journal. ``sealed_key``: the content of the file
        ``sealed_key``. ``sealing``: a function that returns the sealing key of a machine for a
        seal policy. By default no machine has sealed the data key. ``rule``: the digest of the
        rule that proved the line; the seal records the digest.
        """
        root = hashlib.sha256(self.root_der).digest()
        mark = None
        if rule:
            items = self.running.line
            mark = LineMark(root, len(items), hash_of(items[-1].entry), rule)

        async def write() -> None:
            storage = await DirectoryStorage.open(
                folder,
                platform_kind="simulation",
                sealing_key=sealing or (lambda _: _UNKNOWN_MACHINE),
            )
            try:
                await storage.establish(
                    store_id=self.store_id,
                    dek=self.dek,
                    base=self.base,
                    policy="ProductKey",
                    recovery_index=self.recovery_index(1 if after is None else after.epoch + 1),
                    after=after,
                    line=mark,
                )
                if self.running.public_log is not None:
                    name = log_name(self.running.public_log.verifier)
                    await storage.log_parts(name).put_objects(self.objects)
            finally:
                await storage.close()

        asyncio.run(write())
        if sealing is None:
            (folder / "sealed_key").unlink()
        if sealed_key:
            (folder / "sealed_key").write_bytes(sealed_key)
            (folder / "sealed_key").chmod(0o600)

    def write_database(self, url: Secret) -> Position:
        """Write this state into the empty database at ``url``; return the place of its journal."""

        async def write() -> Position:
            store = await PostgresStore.open(url, self.store_id)
            database = PostgresDatabase(url)
            try:
                journal = await Journal.create(
                    store,
                    store_id=self.store_id,
                    dek=self.dek,
                    base=self.base,
                    beside=Beside(self.recovery_index(1), ()),
                )
                if self.running.public_log is not None:
                    parts = DatabaseParts(database, log_name(self.running.public_log.verifier))
                    await parts.put_objects(self.objects)
                await database.make_current(self.store_id, before=None)
            finally:
                await database.close()
                await store.close()
            return journal.position

        return asyncio.run(write())


def invent(*line: bytes, dek: Secret | None = None, store_id: bytes = b"") -> InventedState:
    """Return a state under the last manifest of ``line``, after all manifests before.

    ``dek`` and ``store_id``: the values of the deployment that the state replaces, or none.
    """
    now = time.time_ns() // 1000
    process = new_process("simulation")
    keys = authority.make_coordinator_keys(
        dns_names=("localhost",), ip_addresses=(), curve="P-256", now=moment(now), simulated=True
    )
    accepting = AcceptingManifest(keys)
    command = prepare_manifest(accepting, line[0], now=now)
    events = decide(accepting, command, Context(now=now, **asdict(process)))
    first = evolve_all(None, events)
    assert isinstance(first, Running)
    dek, store_id = dek or Secret(os.urandom(DEK_SIZE)), store_id or os.urandom(STORE_ID_SIZE)
    running = replace(
        first,
        manifest=line[-1],
        signature=authority.sign_manifest(keys, line[-1]),
        recovery=_shares(line[-1], dek),
        public_log=None,  # genuine code then begins a log, as it does for an older state
    )
    return InventedState(running, UpdateLog(events), dek, store_id)


Quote = Callable[[bytes], bytes]
"""Returns a quote over the given report data."""


def with_line(
    state: InventedState,
    line: Sequence[bytes],
    code: Code,
    quote: Quote,
    collateral: bytes = b"",
) -> InventedState:
    """Return ``state`` with a line of the manifests ``line``, by quotes of the host's ``code``.

    ``collateral``: the bundle beside each quote; empty: none. The state also has a log with the
    objects of the line.
    """
    running = state.running
    begun = make_log_key(running.keys, policy_of(line[0]).manifest).begun(running.time)
    log = PublicLog(key=begun.key, verifier=begun.verifier, signature=begun.signature)
    found = state._replace(running=replace(running, public_log=log), objects=tuple(line))
    for manifest in line:
        found = _with_entry(found, manifest, code, quote, collateral)
    return found


def with_manifest(state: InventedState, manifest: bytes, code: Code, quote: Quote) -> InventedState:
    """Return ``state`` after ``manifest`` took effect; a quote of ``code`` states the change."""
    running = replace(
        state.running,
        manifest=manifest,
        signature=authority.sign_manifest(state.running.keys, manifest),
        recovery=_shares(manifest, state.dek),
    )
    found = state._replace(running=running, objects=(*state.objects, manifest))
    return _with_entry(found, manifest, code, quote)


def _with_entry(
    state: InventedState, manifest: bytes, code: Code, quote: Quote, collateral: bytes = b""
) -> InventedState:
    before, time, root = state.running.line, state.running.time, state.root_der
    name = object_name(manifest)
    raw = encode_entry(
        ManifestEntry(previous=hash_of(before[-1].entry).hex(), time=time, manifest=name, code=code)
        if before
        else Created(
            previous="",
            time=time,
            root=hashlib.sha256(root).hexdigest(),
            manifest=name,
            code=code,
        )
    )
    proof = quote(entry_report_data(root, hash_of(raw)))
    beside = object_name(collateral) if collateral else ""
    line = (*before, LineItem(raw, object_name(proof), beside))
    running = replace(state.running, line=line)
    proofs = [each for each in (proof, collateral) if each]
    return state._replace(running=running, objects=(*state.objects, *proofs))


def _shares(raw: bytes, dek: Secret) -> authority.RecoveryMaterial:
    manifest = policy_of(raw).manifest
    public_keys = {name: key.public_key for name, key in manifest.recovery_keys.items()}
    return authority.make_recovery(dek, public_keys, manifest.config.recovery_threshold)
