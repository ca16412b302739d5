"""Measure uploads to one, two and three replicas beside SQLite, in one run.

PostgreSQL runs in a temporary directory: first with a distant synchronous standby, then alone on
the local disk. With ``--before``, two versions of Keyhouse take turns. No time is an error.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import msgspec
from benchmarks.coordinator import Coordinator
from benchmarks.loading import LoadProgram
from benchmarks.manifests import User
from benchmarks.processes import Processors, TroubleError
from benchmarks.rows import Figures, Row, table, write_json
from benchmarks.scenarios import Requests
from benchmarks.store.databases import Database, bare, own_database
from benchmarks.store.loads import SIZE, Given, Loads, beside
from benchmarks.store.wanted import BARE, SQLITE, uploads_compared
from benchmarks.surroundings import look_around
from support.peers.postgres import PostgresServer
from support.replicas.cluster import PORT
from support.replicas.proxies import Proxies

_CLIENTS: Final = (8, 32)
_REPLICAS: Final = (1, 2, 3)
_BEGINNING_SECONDS: Final = 2.5
"""A replica polls each second for joined replicas, and then begins to share flushes."""

_Found = dict[str, dict[str, list[float]]]
"""Values of all rounds, by row and column."""


def main() -> None:
    """Measure, print the table, and write the file of ``--json``."""
    options = _options()
    program = LoadProgram("load", (str(options.load.resolve()),), complete=True)
    versions = {"": Path(sys.executable).parent / "keyhouse"}
    if options.before is not None:
        versions |= {" before": options.before}
    found: _Found = {}
    try:
        with tempfile.TemporaryDirectory(prefix="keyhouse-bench-") as name:
            user = User.create(Path(name))
            given = Given(
                folder=Path(name),
                user=user,
                requests=Requests(Path(name), user),
                seconds=options.seconds,
                rounds=options.rounds,
                program=program,
                keyhouse=versions[""],
                processors=Processors.available(),
                spreads=True,  # replicas would wait for each other on one processor
            )
            surroundings = look_around(Path(name), given.processors)
            for where in options.where:
                _measure(found, given, versions, where, options.distance)
    except TroubleError as trouble:
        sys.exit(f"error: {trouble}")
    rows = uploads_compared([Row(what, values) for what, values in found.items()])
    figures = Figures(surroundings, options.seconds, options.rounds, rows)
    columns = [f"{column}{version}" for column in _columns() for version in versions]
    print(table(figures, [BARE, *columns]))
    write_json(figures, options.json)


def _columns() -> list[str]:
    return [SQLITE, *map(column_of, _REPLICAS)]


def column_of(replicas: int) -> str:
    """Return the column for the given number of replicas."""
    return f"{replicas} replica{'s' if replicas > 1 else ''}"


def _measure(
    found: _Found, given: Given, versions: dict[str, Path], where: str, distance: float
) -> None:
    """Measure all versions in turns."""
    given.folder.joinpath(where).mkdir()
    with own_database(given.folder / where) as database, ExitStack() as ends:
        assert database.server is not None  # noqa: S101 it is the benchmark's own
        if where == "standby":
            ends.enter_context(_distant_standby(database.server, distance))
        for number in range(given.rounds):
            _note(found, f"commit, {where}, p50 µs", BARE, bare(database).commit)
            for version, keyhouse in versions.items():
                _say(f"{where}{version}: round {number + 1} of {given.rounds}")
                name = asyncio.run(database.server.database())
                folder = given.folder / where / f"{number}{version.strip()}"
                folder.mkdir()
                here = msgspec.structs.replace(given, folder=folder, keyhouse=keyhouse)
                url = f"postgresql://keyhouse@/{name}?host={database.server.folder}"
                for column, what, value in _round(here, database._replace(url=url)):
                    _note(found, f"{what[0]}, {where}, {what[1]}", column + version, value)


def _round(given: Given, database: Database) -> Iterator[tuple[str, tuple[str, str], float | None]]:
    with ExitStack() as running:
        alone = given.started("alone")
        try:
            alone.hold_secrets(SIZE, given.user)
            for what, value in _figures([alone], given):
                yield SQLITE, what, value
        finally:
            alone.stop()
        servers = list[Coordinator]()
        for count in _REPLICAS:
            name = f"replica{count}"
            if servers:
                beside(given, servers[0], name)
            servers.append(given.started(name, database.arguments))
            running.callback(servers[-1].stop)
            if count == 1:
                servers[0].hold_secrets(SIZE, given.user)
            else:
                time.sleep(_BEGINNING_SECONDS)
            for what, value in _figures(servers, given):
                yield column_of(count), what, value


def _figures(
    servers: Sequence[Coordinator], given: Given
) -> Iterator[tuple[tuple[str, str], float | None]]:
    loads = Loads(servers, given)
    yield ("upload alone", "p50 µs"), loads.uploads(1).latency_us.p50 or None
    for clients in _CLIENTS:
        yield (f"{clients} clients", "/s"), loads.uploads(clients).requests_per_second or None


@contextmanager
def _distant_standby(primary: PostgresServer, milliseconds: float) -> Iterator[None]:
    """Run a standby behind a delay. Each commit waits ``milliseconds`` for its answer."""
    with (
        Proxies.running([(primary.address, PORT)]) as proxies,
        primary.with_standby(through=proxies.ports[0]),
    ):
        proxies.order(0, "delay", seconds=milliseconds / 2000)
        yield


def _note(found: _Found, what: str, column: str, value: float | None) -> None:
    """Record a value; None: no request had an answer in time."""
    if value is None:
        _say(f"left out: {what}, {column}")
        return
    found.setdefault(what, {}).setdefault(column, []).append(round(value, 1))


def _say(text: str) -> None:
    sys.stderr.write(f"{text} ...\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench --uploads", description=__doc__)
    parser.add_argument("--before", type=Path, metavar="PATH", help="keyhouse of an old version")
    parser.add_argument("--distance", type=float, default=6.0, help="ms to the standby and back")
    parser.add_argument(
        "--where", nargs="+", choices=("standby", "disk"), help="the measured parts (default both)"
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each run")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each kind")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument(
        "--load", type=Path, required=True, metavar="PROGRAM", help="the load program in Go"
    )
    parser.set_defaults(where=["standby", "disk"])
    options = parser.parse_args()
    if not 0 < options.seconds <= 60 or not 1 <= options.rounds <= 20:
        parser.error("--seconds goes up to 60, --rounds from 1 to 20")
    return options


if __name__ == "__main__":
    main()
