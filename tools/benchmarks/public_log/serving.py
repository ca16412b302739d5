"""The log of real coordinators: its share of uploads, tiles over TLS, and witnesses."""

import http.client
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import msgspec
from benchmarks.coordinator import Coordinator
from benchmarks.load_report import LoadReport
from benchmarks.loading import Job, LoadProgram, run_load
from benchmarks.manifests import LIMITED, User, envelope, joining_manifest, upload_bodies
from benchmarks.processes import Processors, TroubleError
from benchmarks.public_log.measured import limited, plain, reached
from benchmarks.public_log.tree import leaf_us
from benchmarks.rows import Row
from support.cosigner import Cosigner
from support.peers.witness import Witness, policy

__all__ = ["Serving"]

_SECRETS: Final = 100
_LEAVES: Final = 300  # enough for one full tile
_READERS: Final = 32
_PATIENCE_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.01
_TILES: Final = 15_000.0  # per second
_WITNESSED_MS: Final = 10.0
_LEAF_SHARE: Final = 5.0  # per cent of an upload


class Serving(msgspec.Struct, frozen=True):
    """Measurements of coordinators with data below ``folder``.

    The methods raise ``TroubleError`` if a request failed.
    """

    folder: Path
    program: LoadProgram
    keyhouse: Path
    processors: Processors
    seconds: float
    rounds: int

    def tile_rows(self) -> Iterator[Row]:
        """Yield rows about a coordinator with a full tile in its log."""
        user = User.create(self.folder)
        bodies = self.folder / "bodies"
        bodies.touch(0o600)
        bodies.write_bytes(upload_bodies(_SECRETS))
        upload = Job("/api/v2/secrets", clients=1, user=user, bodies=bodies, at_most=_LEAVES)
        with ExitStack() as ends:
            one = self._started("tiles", ends)
            one.hold_secrets(_SECRETS, user)
            uploaded = self._load(one, upload, seconds=_PATIENCE_SECONDS)
            yield plain("upload alone, p50 µs", [uploaded.latency_us.p50])
            share = [100 * each / uploaded.latency_us.p50 for each in leaf_us(self.rounds)]
            yield limited("a leaf's share of that upload, %", share, _LEAF_SHARE)
            yield from self._read(one, "tile of hashes", "/api/v2/log/tile/0/000", _TILES)
            yield from self._read(one, "tile of entries", "/api/v2/log/tile/entries/000", None)
            yield from self._read(one, "checkpoint", "/api/v2/log/checkpoint", None)
            starts = []
            for _ in range(self.rounds):
                one.restart()
                starts.append(one.first_answer * 1000)
            yield plain("start with that log to first answer, ms", starts)

    def witnessed_rows(self) -> Iterator[Row]:
        """Yield rows about activations with a limit, with 0, 1 and 3 witnesses.

        Activations wait for a quorum of the witnesses. The witnesses are stand-ins in Python, and
        run on the processor of the load.
        """
        types = self.folder / "types"
        types.write_text(LIMITED + "\n")
        job = Job("/", clients=1, types=types)
        for count in (0, 1, 3):
            with ExitStack() as ends:
                one = self._started(f"witnesses-{count}", ends)
                witnesses = [
                    ends.enter_context(Witness(Cosigner.ed25519(f"witness.example/{number}")))
                    for number in range(count)
                ]
                _set_manifest(one, witnesses)
                taken = [self._load(one, job).latency_us.p50 / 1000 for _ in range(self.rounds)]
            by = "1 witness" if count == 1 else f"{count or 'no'} witnesses"
            what = f"activation with a limit, cosigned by {by} before the answer, p50 ms"
            yield limited(what, taken, _WITNESSED_MS) if count else plain(what, taken)

    def _started(self, name: str, ends: ExitStack) -> Coordinator:
        one = Coordinator(self.keyhouse, self.folder / name, processor=self.processors.server)
        ends.callback(one.stop)
        return one

    def _read(self, one: Coordinator, what: str, path: str, wanted: float | None) -> Iterator[Row]:
        job = Job(path, clients=_READERS)
        reports = [self._load(one, job) for _ in range(self.rounds)]
        rates = [report.requests_per_second for report in reports]
        title = f"{what} over TLS, {_READERS} clients, /s"
        yield plain(title, rates) if wanted is None else reached(title, rates, wanted)
        costs = [report.server_cpu.us_per_request for report in reports if report.server_cpu]
        yield plain(f"{what}, server CPU µs", costs)
        busy = [100 * report.load_cpu_share for report in reports]
        yield plain(f"{what}, the load program's processor, %", busy)

    def _load(self, one: Coordinator, job: Job, seconds: float | None = None) -> LoadReport:
        report = run_load(
            self.program, job, port=one.mesh_port if job.types else one.port,
            pid=one.process.pid, processor=self.processors.load,
            seconds=seconds or self.seconds,
            warmup=0.5 if job.at_most is None else 0.0,  # a limited number counts from the first
        )  # fmt: skip
        if report.errors or not report.requests:
            kinds = ", ".join(sorted({*report.statuses, *report.failures})) or "no answer in time"
            raise TroubleError(f"{job.path}: {report.errors} requests failed: {kinds}")
        return report


def _set_manifest(one: Coordinator, witnesses: list[Witness]) -> None:
    """Set a manifest, add the log's key to ``witnesses``, and wait for their first cosignatures.

    With this manifest, activations with a limit wait for a majority of the witnesses.
    """
    document = msgspec.json.decode(joining_manifest(1))
    if witnesses:
        needed = len(witnesses) // 2 + 1
        said = {"Witnesses": policy(witnesses, needed), "AnchorBefore": ["LimitedActivations"]}
        document["Config"] = {"Transparency": said}
    one.post("/api/v2/manifest", envelope(msgspec.json.encode(document)))
    with closing(one.connection()) as connection:
        connection.request("GET", "/api/v2/log/key")
        answer = connection.getresponse()
        content = answer.read()
    if answer.status != http.client.OK:
        raise TroubleError(f"GET /api/v2/log/key was answered with {answer.status}")
    for each in witnesses:
        each.trust(msgspec.json.decode(content)["data"]["verifierKey"])
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not all(each.notes for each in witnesses):
        if time.monotonic() > deadline:
            raise TroubleError("the witnesses received no checkpoint of the log")
        time.sleep(_POLL_SECONDS)
