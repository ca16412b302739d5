"""Uploads, refusals, restarts and compactions in any order, compared with a simple model."""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import asdict
from support.process.start import DIVIDED
from support.samples.deployment import NOW, manifest, moment, new_process, user

from keyhouse.authority import make_coordinator_keys
from keyhouse.base.errors import RefusedError
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.base import base_events
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.decide import decide, start
from keyhouse.coordinator.core.events import Event
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.core.state import AcceptingManifest, Running
from keyhouse.coordinator.core.update_log import UpdateLog
from keyhouse.coordinator.engine.records import decode_events, encode_events
from keyhouse.coordinator.prepare import prepare_manifest, prepare_upload
from keyhouse.journal import Journal, MemoryStore
from keyhouse.wire.secret_types import UserSecret

SECRETS = [f"key{number}" for number in range(5)]
NAMES = st.sampled_from([*SECRETS, "note", "shared", "unknown"])
VALUES = st.binary(min_size=15, max_size=17)
USERS = st.sampled_from(["writer", "reader", "nobody"])

_ACCEPTING = AcceptingManifest(
    make_coordinator_keys(
        dns_names=["localhost"], ip_addresses=[], curve="P-256", now=moment(NOW), simulated=True
    )
)


class Deployment(RuleBasedStateMachine):
    """A deployment over a memory store; the model is a dictionary and a list."""

    @initialize()
    def begin(self) -> None:
        self.now = NOW
        self.process = new_process()
        self.runner = asyncio.Runner()
        self.store = MemoryStore()
        command = prepare_manifest(_ACCEPTING, manifest(len(SECRETS)), now=NOW)
        events = decide(_ACCEPTING, command, self._context())
        state = evolve_all(_ACCEPTING, events)
        assert isinstance(state, Running)
        self.state = state
        self.log = UpdateLog(events)
        self.ids, self.dek = os.urandom(16), Secret(os.urandom(32))
        self.journal = self.runner.run(
            Journal.create(self.store, store_id=self.ids, dek=self.dek, base=self._base())
        )
        self.values: dict[str, bytes] = {"shared": state.secrets["shared"].private.reveal()}
        self.lines = ["Initial manifest set"]

    def _context(self) -> Context:
        return Context(now=self.now, **asdict(self.process))

    def _base(self) -> Iterator[bytes]:
        return encode_events(base_events(self.state, self.log.view()))

    def _apply(self, events: tuple[Event, ...]) -> None:
        self.runner.run(self.journal.append(list(encode_events(events))))
        after = evolve_all(self.state, events)
        assert isinstance(after, Running)
        self.state = after
        self.log.extend(events)

    @rule(by=USERS, values=st.dictionaries(NAMES, VALUES, min_size=1, max_size=3))
    def upload(self, by: str, values: dict[str, bytes]) -> None:
        allowed = by == "writer" and all(
            name == "note" or (name in SECRETS and len(value) == 16)
            for name, value in values.items()
        )
        uploads = {name: UserSecret(key=Secret(value)) for name, value in values.items()}
        try:
            command = prepare_upload(self.state, user(by).der, uploads)
            events = decide(self.state, command, self._context())
        except RefusedError:
            assert not allowed
            return
        assert allowed
        self._apply(events)
        self.values |= values
        self.lines += [f"{name} by {by}" for name in sorted(values)]

    @rule(by=st.sampled_from(["reader", "nobody"]), value=VALUES)
    def decide_alone_keeps_anonymous_clients_out(self, by: str, value: bytes) -> None:
        good = prepare_upload(
            self.state, user("writer").der, {"note": UserSecret(key=Secret(value))}
        )
        stolen = msgspec.structs.replace(good, identity=user(by).der)
        try:
            decide(self.state, stolen, self._context())
        except RefusedError:
            return
        raise AssertionError(by)

    @rule()
    def restart(self) -> None:
        self.process = new_process()
        self.journal, replay = self.runner.run(
            Journal.open(self.store, store_id=self.ids, dek=self.dek)
        )
        events = list(decode_events(replay.base + replay.events))
        state = evolve_all(None, events)
        assert isinstance(state, Running)
        self.state, self.log = state, UpdateLog(events)
        self._apply((start(self._context()),))

    @rule()
    def compact(self) -> None:
        self.runner.run(self.journal.begin_epoch(self._base()))

    @rule(seconds=st.integers(-1000, 1000))
    def time_passes(self, seconds: int) -> None:
        self.now = max(self.state.time, self.now + seconds * 1_000_000)

    @invariant()
    def the_state_is_that_of_the_model(self) -> None:
        found = {name: value.private.reveal() for name, value in self.state.secrets.items()}
        assert found == self.values

    @invariant()
    def the_log_is_that_of_the_model(self) -> None:
        entries = [json.loads(line) for line in self.log.view().lines()]
        shown = [
            f"{entry['secret']} by {entry['user']}" if "secret" in entry else entry["update"]
            for entry in entries
        ]
        assert shown == self.lines

    @invariant()
    def replay_gives_the_same_state_and_bytes(self) -> None:
        _, replay = self.runner.run(Journal.open(self.store, store_id=self.ids, dek=self.dek))
        events = list(decode_events(replay.base + replay.events))
        replayed, log = evolve_all(None, events), UpdateLog(events)
        assert isinstance(replayed, Running)
        assert _canonical(replayed) == _canonical(self.state)
        assert log.view().lines() == self.log.view().lines()

    def teardown(self) -> None:
        self.runner.close()


def _canonical(state: Running) -> bytes:
    """Return the whole content of ``state`` as bytes."""
    return b"".join(encode_events(base_events(state, UpdateLog().view())))


TestDeployment = Deployment.TestCase
TestDeployment.settings = settings(max_examples=20, stateful_step_count=15, deadline=None)

REPLAY = """
import os, sys
from support.process.divided import divide
divide(os.environ["KEYHOUSE_TESTS_DIVIDED"])
from keyhouse.coordinator.core.base import base_events
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.engine.records import decode_events, encode_events
from keyhouse.coordinator.core.update_log import UpdateLog
import hashlib, msgspec
payloads = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=list[bytes])
events = list(decode_events(payloads))
again = encode_events(base_events(evolve_all(None, events), UpdateLog(events).view()))
print(hashlib.sha256(b"".join(again)).hexdigest())
"""


def test_replay_in_processes_with_other_hash_seeds_gives_identical_bytes() -> None:
    command = prepare_manifest(_ACCEPTING, manifest(3000), now=NOW)
    context = Context(now=NOW, **asdict(new_process()))
    events = decide(_ACCEPTING, command, context)
    state = evolve_all(_ACCEPTING, events)
    assert isinstance(state, Running)
    value = UserSecret(key=Secret(bytes(16)))
    values = {f"key{number}": value for number in range(3000)}
    uploaded = decide(state, prepare_upload(state, user("writer").der, values), context)
    full = evolve_all(state, uploaded)
    assert isinstance(full, Running)
    payloads = list(encode_events(base_events(full, UpdateLog(events).view())))
    assert len(payloads) > 3  # the secrets need several pieces
    tests = {"PYTHONPATH": str(Path(__file__).parents[2]), "KEYHOUSE_TESTS_DIVIDED": DIVIDED}
    found = {
        subprocess.run(
            [sys.executable, "-c", REPLAY],
            input=msgspec.msgpack.encode(payloads),
            capture_output=True,
            check=True,
            env={**tests, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert found == {hashlib.sha256(b"".join(payloads)).hexdigest().encode() + b"\n"}
