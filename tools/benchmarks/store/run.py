"""Measure coordinators on PostgreSQL, a coordinator on SQLite, and the database alone.

Without a URL, PostgreSQL runs in a temporary directory, and the failover to a standby is measured
too. A database with a URL must have the schema and no store (``keyhouse store init``). No time is
an error.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from benchmarks.coordinator import Coordinator
from benchmarks.loading import LoadProgram
from benchmarks.manifests import User
from benchmarks.processes import Processors, TroubleError
from benchmarks.rows import Figures, Row, table, write_json
from benchmarks.scenarios import Requests
from benchmarks.store.databases import Database, bare, own_database
from benchmarks.store.failing import failed_over, lost, seen_elsewhere
from benchmarks.store.loads import SIZE, Given, Loads, behind_one_address, beside
from benchmarks.store.wanted import BARE, COMMIT, ONE, ROUND_TRIP, SQLITE, TWO, compared
from benchmarks.surroundings import look_around

_SEEN: Final = 200

_Found = dict[str, dict[str, list[float]]]
"""Values of all rounds, by row and column."""


def main() -> None:
    """Measure, print the table, and write the file of ``--json``."""
    options = _options()
    program = LoadProgram("load", (str(options.load.resolve()),), complete=True)
    try:
        with tempfile.TemporaryDirectory(prefix="keyhouse-bench-") as name, ExitStack() as ends:
            folder = Path(name)
            user = User.create(folder)
            given = Given(
                folder=folder,
                user=user,
                requests=Requests(folder, user),
                seconds=options.seconds,
                rounds=options.rounds,
                program=program,
                keyhouse=Path(sys.executable).parent / "keyhouse",
                processors=Processors.available(),
            )
            database = Database(options.store, options.store_password_file)
            if not options.store:
                database = ends.enter_context(own_database(folder))
            surroundings = look_around(folder, given.processors)
            rows = _measure(given, database)
    except TroubleError as trouble:
        sys.exit(f"error: {trouble}")
    figures = Figures(surroundings, options.seconds, options.rounds, rows)
    print(table(figures, [BARE, SQLITE, ONE, TWO]))
    write_json(figures, options.json)


def _measure(given: Given, database: Database) -> list[Row]:
    found: _Found = {}
    for _ in range(given.rounds):
        _say("the database itself")
        commit, round_trip = bare(database)
        _note(found, COMMIT, BARE, commit)
        _note(found, ROUND_TRIP, BARE, round_trip)
    with _running(given, database) as (alone, first):
        for column, server in ((SQLITE, alone), (ONE, first)):
            server.hold_secrets(SIZE, given.user)
            _under_load(found, column, [server], given)
        with _ended(_second(given, first, database)) as second:
            _under_load(found, TWO, [first, second], given)
            _say("reads at a replica after uploads to the first")
            for took in seen_elsewhere(first, second, given.user, _SEEN):
                _note(found, "read elsewhere after an upload, p50 µs", TWO, took)
            for _ in range(given.rounds):
                _lose(found, given, first, second)
    _say("replicas behind one address")
    place = beside(given, first, "replicas")
    for column, count in ((ONE, 1), (TWO, 2)):
        for what, value in behind_one_address(given, place, count, database.arguments):
            _note(found, what, column, value)
    if database.server is not None:
        _fail_over(found, given, first, database)
    return compared([Row(what, values) for what, values in found.items()])


def _under_load(found: _Found, column: str, servers: list[Coordinator], given: Given) -> None:
    for number in range(given.rounds):
        _say(f"{column}: round {number + 1} of {given.rounds}")
        for what, value in Loads(servers, given).figures():
            _note(found, what, column, value)


def _lose(found: _Found, given: Given, survivor: Coordinator, other: Coordinator) -> None:
    """Kill a replica under load, and start it again."""
    _say("a replica is lost, and joins again")
    _note(
        found, "replica lost: longest gap at the other, ms", TWO, lost(survivor, other, given.user)
    )
    other.restart()
    _note(found, "join: start to first answer, ms", TWO, other.first_answer * 1000)


def _fail_over(found: _Found, given: Given, first: Coordinator, database: Database) -> None:
    """Fail the database over to a new standby. The URL of the replica has both hosts."""
    _say("the database fails over")
    assert database.server is not None  # noqa: S101 the caller has looked
    with database.server.with_standby() as standby:
        beside(given, first, "failing")
        arguments = database.also_at(standby).arguments
        with _ended(given.started("failing", arguments)) as replica:
            moments = failed_over(replica, given.user, database.server, standby)
    for what, took in moments.items():
        _note(found, f"failover: {what}, ms", BARE if "PostgreSQL" in what else ONE, took)


@contextmanager
def _running(given: Given, database: Database) -> Iterator[tuple[Coordinator, Coordinator]]:
    """Run a coordinator on SQLite and a coordinator on the database."""
    with (
        _ended(given.started("alone")) as alone,
        _ended(given.started("first", database.arguments)) as first,
    ):
        yield alone, first


def _second(given: Given, first: Coordinator, database: Database) -> Coordinator:
    beside(given, first, "second")
    return given.started("second", database.arguments)


@contextmanager
def _ended(server: Coordinator) -> Iterator[Coordinator]:
    try:
        yield server
    finally:
        server.stop()


def _note(found: _Found, what: str, column: str, value: float | None) -> None:
    """Record a value; None: no request had an answer in time."""
    if value is None:
        _say(f"left out: {what}, {column}")
        return
    found.setdefault(what, {}).setdefault(column, []).append(round(value, 1))


def _say(text: str) -> None:
    sys.stderr.write(f"{text} ...\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument(
        "--store", nargs="?", const="", required=True, metavar="URL", help="a prepared database"
    )
    parser.add_argument(
        "--store-password-file", type=Path, metavar="FILE", help="file with its password"
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each run")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each kind")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument(
        "--load", type=Path, required=True, metavar="PROGRAM", help="the load program in Go"
    )
    options = parser.parse_args()
    if not 0 < options.seconds <= 60 or not 1 <= options.rounds <= 20:
        parser.error("--seconds goes up to 60, --rounds from 1 to 20")
    if options.store_password_file and not options.store:
        parser.error("--store-password-file goes with the URL of a database")
    return options


if __name__ == "__main__":
    main()
