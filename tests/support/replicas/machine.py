"""Changes, failures and attacks in any order, on one to four replicas of a store.

The rules after each step, with all other work at rest:

1. Acknowledged changes are in the store. Changes that were refused never appear.
2. All replicas with a connection to the store have the same state.
3. No change happens under a revoked permission. Limits and counters hold.
4. No nonce appears twice. No view goes back.
5. A replica stops if it knew more than the store; nothing else stops a replica.

``reads`` judges the answers to clients through the gates of the replicas.

A database may lose acknowledged changes, show old content to a replica, or give a replica a
separate history. Then the lost changes are missing, but histories never mix.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from keyhouse.base.errors import RefusedError, StartAgainError, UnavailableError
from keyhouse.base.secret import Secret
from keyhouse.coordinator import (
    Activate,
    Activated,
    Engine,
    Running,
    SentUpdate,
    SetCounter,
    StaleError,
    counter_of,
    prepare_update,
)
from keyhouse.coordinator.core.commands import Command, InitiateUpdate
from keyhouse.coordinator.engine.commits import new_dek
from keyhouse.coordinator.engine.read_gate import ReadGate
from keyhouse.coordinator.engine.records import rebuild
from keyhouse.coordinator.engine.work_queue import Decision
from keyhouse.coordinator.prepare import prepare_upload
from keyhouse.journal import Journal, Position, RolledBackError, WrongKeyError
from keyhouse.journal.chain import key_check
from keyhouse.wire.secret_types import UserSecret
from support.replicas.linearizability import REFUSED
from support.replicas.reads import ACTIVATIONS, RAISED, WRITER, Read, Readers
from support.samples.deployment import NOW, user
from support.samples.replicas import DEK, STORE_ID, begin, opened_engine
from support.samples.simulated_store import Database, Fault, Peek, SimulatedStore, Stored
from support.samples.simulated_time import SimulatedLoop, until_idle
from support.samples.updates import raise_version, together

__all__ = ["WHICH", "Replica", "Replicas"]

LIMIT: Final = 3
COUNTER: Final = "x"
HOW: Final = ["down", "deaf", "deaf", "slow", "frozen", "held", "forked"]
MARBLE: Final = ("app", "11111111-2222-3333-4444-555555555555")
NAMES: Final = [f"s{number:02}" for number in range(30)]
MOST: Final = 4
WHICH: Final = st.integers(0, 11)
_PAUSE: Final = 1.0  # seconds of simulated time; more than a wait for a turn


def _manifest(word: str, *, writes: bool = True, keys: int = 0) -> bytes:
    """Return a manifest that ``alice`` may update alone; ``writes``: ``writer`` may upload."""

    def change(document: dict[str, Any]) -> None:
        document["Secrets"] |= {name: {"Type": "plain", "UserDefined": True} for name in NAMES}
        document["Roles"]["write"]["ResourceNames"] = NAMES
        document["Marbles"]["app"]["MaxActivations"] = LIMIT
        if not writes:
            del document["Users"]["writer"]

    holders = [f"holder{keys % 2}"] if keys else []
    gates = {"FeatureGates": ["MonotonicCounter"], "SealMode": "Disabled", "Replicas": {}}
    return together(
        change, updaters=["alice"], holders=holders, word=word, UpdateThreshold=1, **gates
    )


@cache
def _beginning(*, shares_flush: bool) -> Stored:
    """Return the content of a store with a new deployment: the same at each call."""

    async def make() -> Stored:
        database = Database()
        await begin(SimulatedStore(database), _manifest("first"), shares_flush=shares_flush)
        return database.stored

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(make())


class Change:
    """A requested change, and its outcome."""

    def __init__(self, kind: str, value: object, task: "asyncio.Task[Decision]") -> None:
        self.kind, self.value, self.task = kind, value, task
        self.forbidden = False  # the permission was revoked before the begin
        self.told: Callable[[object], None] = lambda _: None  # ends the call in the history
        self.known: bool | None = None  # whether the change happened; None: unknown

    def conclude(self) -> bool:
        """Return whether the change has ended; record the caller's knowledge of the outcome."""
        if not self.task.done():
            return False
        error = None if self.task.cancelled() else self.task.exception()
        if error is None and not self.task.cancelled():
            self.known = True
        elif isinstance(error, RefusedError | StaleError | UnavailableError):
            self.known = False
        return True


class Replica:
    """A running engine and its connection."""

    def __init__(self, engine: Engine, store: SimulatedStore) -> None:
        self.engine, self.store = engine, store
        self.running = asyncio.ensure_future(engine.run())
        self.gate = ReadGate(engine)
        self.reads: list[Read] = []
        self.changes: list[Change] = []
        self.seen: Position | None = None
        self.held = False

    @property
    def journal(self) -> Journal:
        """The engine's journal."""
        journal = self.engine.writer.journal
        assert journal is not None
        return journal

    def lags(self) -> bool:
        """Return whether the view is older than the store."""
        return self.engine.view.position != self.store.database.history[-1].head

    @property
    def is_cut_off(self) -> bool:
        """Whether the replica does not receive the writes of all others, or has pending work."""
        store, waits = self.store, bool(self.changes) or not self.journal.settled
        waits = waits or self.store.holds_flushes
        return store.down or store.deaf or store.frozen is not None or self.held or waits


class Replicas(RuleBasedStateMachine):
    """A deployment. Choices depend on draws and earlier steps, never on time."""

    shares_flush = False

    @initialize()
    def start(self) -> None:
        beginning = _beginning(shares_flush=self.shares_flush)
        self.runner = asyncio.Runner(loop_factory=SimulatedLoop)
        self.folder = Path(tempfile.mkdtemp(prefix="keyhouse-replicas-"))
        self.nonces: list[bytes] = []
        self.runner.run(self._start(beginning))

    async def _start(self, beginning: Stored) -> None:
        self.database = Database([beginning])
        self.deks = [DEK]
        self.replicas: list[Replica] = []
        self.stores: list[SimulatedStore] = []
        self.uploaded: dict[str, bytes] = {}
        self.uploading: set[str] = set()  # secrets with an undecided upload
        self.counted: dict[int, int] = {}  # values of the counter, each with its former value
        self.activated = 0
        self.never: set[object] = set()
        self.readers = Readers(self.database, COUNTER, MARBLE, LIMIT)
        self.revoked = False
        self.count = 0
        self.truth = await self._read_truth()
        await self._join()

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            try:  # the end also judges the history
                self.runner.run(self._end())
            finally:
                self.runner.close()
                shutil.rmtree(self.folder)

    async def _end(self) -> None:
        for replica in list(self.replicas):
            await self._kill(replica)
        if not self.readers.promises.losses:
            self.readers.judge()

    # --- replicas ---

    def new_store(self) -> SimulatedStore:
        """Return a connection for a new replica."""
        return SimulatedStore(self.database, self.nonces)

    def joined(self, replica: Replica) -> None:
        """Prepare a new replica."""

    async def _join(self) -> None:
        store = self.new_store()
        self.stores.append(store)
        self.count += 1
        path = self.folder / str(self.count)
        engine = await opened_engine(store, path, self._dek())
        self.replicas.append(replica := Replica(engine, store))
        self.joined(replica)

    async def _kill(self, replica: Replica) -> None:
        self.replicas.remove(replica)
        for read in replica.reads:
            read.answer.cancel()
        replica.running.cancel()
        await asyncio.wait([replica.running])
        await replica.store.close()
        await replica.engine.close()
        await until_idle()
        for change in replica.changes:
            change.task.cancel()
            await asyncio.wait([change.task])
            self._concluded(replica, change)

    def _dek(self) -> Secret:
        start = self.database.stored.start
        assert start is not None
        for dek in self.deks:
            if start.key_check == key_check(dek, STORE_ID, start.epoch):
                return dek
        raise AssertionError("the store is under a key that nobody made")

    async def _read_truth(self) -> Running:
        store = Peek(self.database, self.nonces)
        try:
            _, replay = await Journal.open(store, store_id=STORE_ID, dek=self._dek())
        finally:
            await store.close()
        return rebuild(replay.base + replay.events)[0]

    def _one(self, which: int) -> Replica:
        return self.replicas[which % len(self.replicas)]

    @rule()
    def join(self) -> None:
        if len(self.replicas) < MOST:
            self.runner.run(self._join())

    @rule(which=WHICH)
    def kill(self, which: int) -> None:
        if len(self.replicas) > 1:
            self.runner.run(self._kill(self._one(which)))

    @rule(which=WHICH)
    def compact(self, which: int) -> None:
        async def make_it_due() -> None:
            replica.journal._weight = 2**30  # as after many writes
            replica.engine.queue.request_follow()

        replica = self._one(which)
        self.runner.run(make_it_due())

    # --- changes ---

    def _submit(self, replica: Replica, kind: str, value: object, command: Command) -> None:
        async def submit() -> None:
            async def decided() -> Decision:
                return await replica.engine.queue.add(command)

            task = asyncio.create_task(decided())
            change = Change(kind, value, task)
            change.forbidden = kind == "upload" and self.revoked
            change.told = self._begun(kind, value)
            replica.changes.append(change)

        self.runner.run(submit())

    def _begun(self, kind: str, value: object) -> Callable[[object], None]:
        """Record the begin of a change in the history; return the function that records its end."""
        history = self.readers.history
        match kind, value:
            case "upload", (str(name), written):
                return history.begin(name, "write", written)
            case "counter", _:
                return history.begin(RAISED, "raise", value)
            case "activation", _:
                return history.begin(ACTIVATIONS, "take")
            case "grant" | "revocation", _:
                return history.begin(WRITER, "give" if kind == "grant" else "revoke")
        return lambda _: None

    @rule(which=WHICH)
    def upload(self, which: int) -> None:
        replica = self._one(which)
        self.count += 1
        first = self.count % len(NAMES)
        names = [name for name in NAMES[first:] + NAMES[:first] if name not in self.uploading]
        if not names:
            return
        name = names[0]
        value = b"%s %d" % (name.encode(), self.count)
        try:
            secret = UserSecret(key=Secret(value))
            state = replica.engine.view.running
            command = prepare_upload(state, user("writer").der, {name: secret})
        except RefusedError:
            return
        self.uploading.add(name)
        self.uploaded.pop(name, None)  # from now on, the new value may replace the old value
        self._submit(replica, "upload", (name, value), command)

    @rule(which=WHICH)
    def activate(self, which: int) -> None:
        replica = self._one(which)
        state = replica.engine.view.running
        self.count += 1
        activated = Activated(
            time=NOW, marble_type="app", uuid=str(self.count), names=(), counted=True, quoted=False
        )
        command = Activate(state.manifest, state.keys.intermediate_cert, activated)
        self._submit(replica, "activation", self.count, command)

    @rule(which=WHICH)
    def raise_counter(self, which: int) -> None:
        replica = self._one(which)
        self.count += 1
        root = replica.engine.view.running.keys.marble_root_cert
        self._submit(replica, "counter", self.count, SetCounter(root, MARBLE, COUNTER, self.count))

    @rule(which=WHICH, version=st.integers(3, 9))
    def raise_version(self, which: int, version: int) -> None:
        self._update(self._one(which), "releaser", raise_version(version))

    @rule(which=WHICH, writes=st.booleans(), new_keys=st.sampled_from([False, False, False, True]))
    def update(self, which: int, *, writes: bool, new_keys: bool) -> None:
        self.count += 1
        keys = self.count if new_keys else 0
        raw = _manifest(str(self.count), writes=writes, keys=keys)
        if writes:
            self.revoked = False
            self.readers.grants()
        self._update(self._one(which), "alice", raw, kind="grant" if writes else "revocation")

    def _update(self, replica: Replica, by: str, raw: bytes, kind: str = "update") -> None:
        view, now = replica.engine.view, replica.engine.current.now()
        try:
            command = prepare_update(view.running, SentUpdate(user(by).der, raw), now=now)
        except RefusedError:
            return
        if isinstance(command, InitiateUpdate) and (dek := new_dek(command)) is not None:
            self.deks.append(dek)
        self._submit(replica, kind, raw, command)

    @rule(which=WHICH, other=WHICH, revokes=st.booleans())
    def change_during_a_look(self, which: int, other: int, *, revokes: bool) -> None:
        """Require that an old read of the head confirms no later request."""
        slow, busy = self._one(which), self._one(other)
        if slow is busy or slow.held or busy.is_cut_off:
            return
        deaf, slow.store.deaf = slow.store.deaf, True
        slow.store.hold_looks()
        self.runner.run(self._ask())
        if revokes:
            self.update(other, writes=False, new_keys=False)
        else:
            self.upload(other)
        self.runner.run(self._conclude())
        self.runner.run(self._ask())
        slow.store.let_pass()
        self.runner.run(until_idle())
        slow.store.deaf = deaf

    # --- failures and attacks ---

    @rule(which=WHICH, fault=st.sampled_from(Fault), breaks=st.booleans(), late_win=st.booleans())
    def fail_next(self, which: int, fault: Fault, *, breaks: bool, late_win: bool) -> None:
        store = self._one(which).store
        store.faults.append(fault)
        store.breaks, store.late_win = breaks, late_win

    @rule(which=WHICH, how=st.sampled_from(HOW))
    def cut_off(self, which: int, how: str) -> None:
        replica = self._one(which)
        store = replica.store
        if how == "frozen":
            store.frozen = store.database.stored
        elif how == "held":
            store.hold()
            replica.held = True
        elif how == "slow":
            store.hold_looks()
            store.deaf = True
        elif how == "forked" and not replica.changes and store.database is self.database:
            store.fork()
        elif how != "forked":
            setattr(store, how, True)
        for read in replica.reads if how in {"frozen", "forked"} else ():
            read.honest = False

    @rule(which=WHICH)
    def heal(self, which: int) -> None:
        replica = self._one(which)
        replica.store.heal(self.database)
        replica.held = False

    @rule(which=WHICH)
    def let_late_ones_arrive(self, which: int) -> None:
        self.stores[which % len(self.stores)].arrive_late()

    @rule(commits=st.integers(1, 3))
    def lose_the_tail(self, commits: int) -> None:
        # Answers from before the loss are promises about the lost records.
        self.runner.run(self._conclude())
        self.database.lose_tail(commits)
        self.runner.run(self._accept_loss())

    async def _accept_loss(self) -> None:
        self.readers.lost()
        truth = await self._read_truth()
        kept = _values(truth)
        self.uploaded = {n: value for n, value in self.uploaded.items() if kept.get(n) == value}
        self.counted.clear()
        self.activated = 0
        self.revoked = self.revoked and "writer" not in truth.manifest.decode()

    @rule(seconds=st.sampled_from([1, 11, 60]))
    def wait(self, seconds: int) -> None:
        for replica in self.replicas:  # stores sometimes announce new records without reason
            replica.engine.queue.request_follow()
        self.runner.run(asyncio.sleep(seconds))

    # --- invariants ---

    @invariant()
    def everything_holds(self) -> None:
        if hasattr(self, "truth"):
            self.runner.run(self._check())

    async def _check(self) -> None:
        await self._conclude()
        await self._ask()
        for replica in self.replicas:
            self._check_reads(replica)
            if not replica.store.deaf:
                replica.engine.queue.request_follow()
        await self._rest()
        self.truth = await self._read_truth()
        self._check_truth()
        for replica in list(self.replicas):
            await self._check_replica(replica)
        if not self.replicas:
            await self._join()
        assert len(set(self.nonces)) == len(self.nonces)

    async def _conclude(self) -> None:
        """Let all possible steps happen, and record the outcomes known to callers."""
        await until_idle()
        for replica in self.replicas:
            for change in [each for each in replica.changes if each.conclude()]:
                replica.changes.remove(change)
                self._concluded(replica, change)

    async def _ask(self) -> None:
        """Request an answer from each replica, and let the possible answers arrive."""
        for each in self.replicas:
            each.reads.append(self.readers.ask(each.engine, each.gate, each.store))
        await self._rest()

    async def _rest(self) -> None:
        """Return when no work is left, after the pause of a writer without a turn."""
        await until_idle()
        if any(each.reads or each.lags() for each in self.replicas if self._is_well(each)):
            await asyncio.sleep(_PAUSE)
            await until_idle()

    def _is_well(self, replica: Replica) -> bool:
        served = replica.store.database is self.database
        return served and not replica.is_cut_off and not replica.running.done()

    def _check_reads(self, replica: Replica) -> None:
        """Require right answers, and the arrival of each possible answer."""
        for read in [read for read in replica.reads if read.answer.done()]:
            replica.reads.remove(read)
            read.answer.result()
        if self._is_well(replica):
            losses = self.readers.promises.losses  # a loss may have removed a known head
            assert not [read for read in replica.reads if read.promises.losses == losses]

    def _concluded(self, replica: Replica, change: Change) -> None:
        """Record the outcome of a change, as known to the caller."""
        change.conclude()
        if isinstance(change.value, tuple) and change.known is not None:
            self.uploading.discard(change.value[0])
        if change.known is False:
            self.never.add(change.value)
            change.told(REFUSED)
        if change.known and replica.store.database is self.database:
            assert not change.forbidden
            self.readers.acknowledged(
                change.task.result().view.position, revoked=change.kind == "revocation"
            )
            match change.kind, change.value:
                case "upload", (str(name), bytes(value)):
                    self.uploaded[name] = value
                    change.told(None)
                case "counter", int(value):
                    before = counter_of(_before(change.task.result()), MARBLE, COUNTER)
                    change.told(before)
                    assert before not in self.never
                    if before < value:  # otherwise another change raised the counter further
                        assert before not in self.counted.values()
                        self.counted[value] = before
                case "activation", _:
                    self.activated += 1
                    change.told(True)  # noqa: FBT003 - the result of the call
                case "revocation", _:
                    self.revoked = True
                    change.told(None)
                case "grant", _:
                    change.told(None)

    def _check_truth(self) -> None:
        truth, never = self.truth, self.never
        values = _values(truth)
        assert never.isdisjoint(values.items())
        assert values.items() >= self.uploaded.items()
        counter = counter_of(truth, MARBLE, COUNTER)
        assert counter not in never
        assert counter >= max(self.counted, default=0)
        assert self.activated <= truth.activations.get("app", 0) <= LIMIT
        assert truth.manifest not in never

    async def _check_replica(self, replica: Replica) -> None:
        view, heads = replica.engine.view, [each.head for each in self.database.history]
        assert view.position is not None
        before, replica.seen = replica.seen, view.position
        assert before is None or view.position.sequence >= before.sequence
        if replica.running.done():
            error = replica.running.exception()
            start = self.database.stored.start
            assert start is not None
            if isinstance(error, WrongKeyError | StartAgainError):
                assert start.key_check != key_check(replica.journal.dek, STORE_ID, start.epoch)
            else:
                assert isinstance(error, RolledBackError), error
                assert view.position not in heads
            await self._kill(replica)
        elif replica.store.database is self.database and not replica.is_cut_off:
            assert view.position == heads[-1]
            assert _values(view.running) == _values(self.truth)
            assert view.running.activations == self.truth.activations


def _values(state: Running) -> dict[str, bytes]:
    return {name: stored.private.reveal() for name, stored in state.secrets.items()}


def _before(decision: Decision) -> Running:
    assert isinstance(decision.before, Running)
    return decision.before
