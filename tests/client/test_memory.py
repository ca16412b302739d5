"""What was seen of a coordinator once holds for ever: rules, and the file that keeps it."""

import hashlib
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from support.peers.peer import Peer, serving, success

from keyhouse.client import (
    Address,
    Coordinator,
    FileMemory,
    Memories,
    MemoryUnusableError,
    Place,
    StateMemory,
    TrustedCoordinator,
    TrustError,
    forgotten,
    parse_address,
    verify_coordinator,
)
from keyhouse.client.memory.states import (
    MOST_ADDRESSES,
    MOST_PLACES,
    MemoryFullError,
    read_place,
    with_state,
)

HERE = Address("keys.example", 4433)
ROOT, OTHER = "11" * 32, "22" * 32
A, B = "a" * 16, "b" * 16
STATUS = success({"code": 3, "message": "running"})


def seen(*texts: str, root: str = ROOT) -> Memories:
    """Return memories of these places at ``HERE``, one call after the other."""
    memories = Memories()
    for text in texts:
        known = memories.highest(root)
        memories = with_state(memories, HERE, root, known, read_place(text))
    return memories


# --- the rules ---


@pytest.mark.parametrize(
    ("before", "now", "newest"),
    [
        ((), f"0.0.{A}", f"0.0.{A}"),
        ((f"1.5.{A}",), f"1.5.{A}", f"1.5.{A}"),
        ((f"1.5.{A}",), f"1.6.{B}", f"1.6.{B}"),
        ((f"1.5.{A}",), f"2.6.{B}", f"2.6.{B}"),
        ((f"1.5.{A}",), f"1.900.{B}", f"1.900.{B}"),
    ],
)
def test_what_continues_from_what_is_known_is_remembered(
    before: tuple[str, ...], now: str, newest: str
) -> None:
    memories = seen(*before, now)
    assert str(memories.highest(ROOT)) == newest
    assert memories.root_at(HERE) == ROOT


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (f"1.4.{A}", "rollback"),
        (f"2.4.{A}", "rollback"),
        (f"0.0.{A}", "rollback"),
        (f"1.5.{B}", "fork"),
        (f"2.5.{A}", "fork"),
        (f"0.6.{B}", "contradiction"),
    ],
)
def test_what_contradicts_what_is_known_is_refused(now: str, reason: str) -> None:
    with pytest.raises(TrustError, match=f"^{reason}: .* keys.example:4433") as refused:
        seen(f"1.5.{A}", now)
    assert "keyhouse trust forget" in refused.value.hint


def test_answers_that_overtake_each_other_are_not_a_rollback() -> None:
    begun = seen(f"1.5.{A}")
    later = with_state(begun, HERE, ROOT, begun.highest(ROOT), read_place(f"1.9.{A}"))
    late = with_state(later, HERE, ROOT, begun.highest(ROOT), read_place(f"1.7.{B}"))
    assert [place.sequence for place in late.places[ROOT]] == [5, 7, 9]


def test_a_fork_at_a_place_before_the_newest_is_noticed_too() -> None:
    memories = seen(f"1.5.{A}", f"1.6.{A}", f"1.9.{A}")
    known = read_place(f"1.5.{A}")
    with pytest.raises(TrustError, match="fork"):
        with_state(memories, HERE, ROOT, known, read_place(f"1.6.{B}"))
    with pytest.raises(TrustError, match="contradiction"):
        with_state(memories, HERE, ROOT, known, read_place(f"2.8.{B}"))


def test_no_state_where_there_was_one_is_refused() -> None:
    memories = seen(f"1.5.{A}")
    with pytest.raises(TrustError, match="shows no state"):
        with_state(memories, HERE, ROOT, memories.highest(ROOT), None)
    assert with_state(memories, HERE, ROOT, None, None) is memories  # the call began before it
    assert with_state(Memories(), HERE, ROOT, None, None) == Memories()


@pytest.mark.parametrize("place", [None, Place(1, 5, A), Place(9, 9, A)])
def test_another_root_at_the_address_is_refused_whatever_its_state(place: Place | None) -> None:
    with pytest.raises(TrustError, match="SHA-256") as refused:
        with_state(seen(f"1.5.{A}"), HERE, OTHER, None, place)
    assert refused.value.hint.endswith("keyhouse trust forget keys.example:4433")


def test_the_same_deployment_at_another_address_has_the_same_history() -> None:
    memories = seen(f"1.5.{A}")
    elsewhere = Address("::1", 9)
    with pytest.raises(TrustError, match="fork"):
        with_state(memories, elsewhere, ROOT, memories.highest(ROOT), read_place(f"1.5.{B}"))
    both = with_state(memories, elsewhere, ROOT, memories.highest(ROOT), read_place(f"1.5.{A}"))
    assert both.roots == {"keys.example:4433": ROOT, "[::1]:9": ROOT}
    assert forgotten(both, elsewhere) == Memories()


def test_names_of_hosts_are_the_same_in_any_case() -> None:
    assert seen(f"1.5.{A}").root_at(Address("KEYS.Example", 4433)) == ROOT


@pytest.mark.parametrize(
    "text",
    [
        *("", "1.5", f"1.5.{A}0", f"1.5.{'A' * 16}", f"01.5.{A}", f"1.-5.{A}", f"1. 5.{A}"),
        *(f"1.5.{A}, 1.5.{A}", f"1.5.{A}\n", f"\u0661.5.{A}", f"1.{'9' * 20}.{A}"),
    ],
)
def test_an_invalid_state_is_refused(text: str) -> None:
    with pytest.raises(TrustError, match="Keyhouse-State"):
        read_place(text)


def test_only_the_newest_places_and_so_many_addresses_are_kept() -> None:
    memories = seen(*(f"1.{n}.{A}" for n in range(MOST_PLACES + 5)))
    assert [place.sequence for place in memories.places[ROOT]] == list(range(5, MOST_PLACES + 5))
    for port in range(1, MOST_ADDRESSES):
        memories = with_state(memories, Address("h", port), OTHER, None, read_place(f"1.1.{A}"))
    with pytest.raises(MemoryFullError):
        with_state(memories, Address("h", MOST_ADDRESSES), OTHER, None, read_place(f"1.1.{A}"))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12), st.booleans()), max_size=25))
def test_whatever_comes_what_is_remembered_is_one_possible_journal(
    states: list[tuple[int, int, bool]],
) -> None:
    memories = Memories()
    for epoch, sequence, other in states:
        place = Place(epoch, sequence, B if other else A)
        try:
            memories = with_state(memories, HERE, ROOT, None, place)
        except TrustError:
            continue
        kept = memories.places[ROOT]
        assert place in kept
        assert sorted(kept, key=lambda one: (one.sequence, one.epoch)) == list(kept)
        assert sorted(one.epoch for one in kept) == [one.epoch for one in kept]
        assert len({one.sequence for one in kept}) == len(kept)


# --- the file ---


def test_the_file_keeps_everything_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "state" / "keyhouse" / "known.json"
    wanted = seen(f"1.5.{A}", f"2.6.{B}")
    FileMemory(path).change(lambda _: wanted)
    assert FileMemory(path).read() == wanted
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert sorted(p.name for p in path.parent.iterdir()) == ["known.json", "known.json.lock"]


def test_what_is_not_there_yet_is_empty_and_reading_makes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "none" / "known.json"
    assert FileMemory(path).read() == Memories()
    assert not path.parent.exists()


def test_a_refusal_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    memory = FileMemory(tmp_path / "known.json")
    memory.change(lambda _: seen(f"1.5.{A}"))
    before = memory.path.stat()

    def refuse(_: Memories) -> Memories:
        raise TrustError("no")

    with pytest.raises(TrustError):
        memory.change(refuse)
    memory.change(lambda memories: memories)
    after = memory.path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def _damage(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    return lambda content: content.replace(old, new)


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda content: content[:-3],
        lambda content: content + b" " * (8 << 20),
        _damage(b'"version": 2', b'"version": 3'),
        _damage(b'"version": 2', b'"version": 2, "more": 0'),
        _damage(b'"version": 2', b'"version": 2, "Version": 2'),
        _damage(b"1.5.", b"1.7."),
        _damage(b"1.5.", b"3.5."),
        _damage(b"1.5.", b"x.5."),
        _damage(b'"' + b"11" * 32 + b'": [', b'"' + b"33" * 32 + b'": ['),
        _damage(b"11" * 32, b"1"),
        lambda _: b'{"version": 1, "roots": {}, "places": {"%s": []}}' % (b"11" * 32),
    ],
)
def test_a_damaged_memory_is_refused_and_never_treated_as_an_empty_one(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    memory = FileMemory(tmp_path / "known.json")
    memory.change(lambda _: seen(f"1.5.{A}", f"2.6.{B}"))
    damaged = damage(memory.path.read_bytes())
    memory.path.write_bytes(damaged)
    with pytest.raises(MemoryUnusableError, match="is damaged"):
        memory.read()
    with pytest.raises(MemoryUnusableError, match="is damaged"):
        memory.change(lambda _: Memories())
    assert memory.path.read_bytes() == damaged


@pytest.mark.parametrize("path", ["", "/", ".."])
def test_a_path_without_a_name_is_refused(path: str) -> None:
    with pytest.raises(MemoryUnusableError):
        FileMemory(Path(path))


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "x" * 300, "/dev/null/x"])
def test_a_path_that_no_memory_can_have_is_refused(tmp_path: Path, path: str) -> None:
    memory = FileMemory(tmp_path / path)
    with pytest.raises(MemoryUnusableError, match="--memory"):
        memory.read()
    with pytest.raises(MemoryUnusableError, match="--memory"):
        memory.change(lambda _: seen(f"1.5.{A}"))


def test_a_memory_that_others_can_write_or_that_is_not_a_file_is_refused(tmp_path: Path) -> None:
    memory = FileMemory(tmp_path / "known.json")
    memory.change(lambda _: seen(f"1.5.{A}"))
    memory.path.chmod(0o620)
    with pytest.raises(MemoryUnusableError, match="chmod 600"):
        memory.read()
    memory.path.chmod(0o600)
    link, pipe = tmp_path / "link.json", tmp_path / "pipe.json"
    link.symlink_to(memory.path)
    os.mkfifo(pipe, 0o600)
    in_use = sorted(Path("/proc/self/fd").iterdir())
    for path, problem in (
        (link, "too many levels of symbolic links"),
        (pipe, "is not a regular file"),
        (tmp_path, "is a directory"),
    ):
        with pytest.raises(MemoryUnusableError, match=problem):
            FileMemory(path).read()
    assert sorted(Path("/proc/self/fd").iterdir()) == in_use


def test_a_place_where_nothing_can_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(MemoryUnusableError, match="cannot be locked") as refused:
        FileMemory(tmp_path / "file" / "known.json").change(lambda memories: memories)
    assert "--memory" in refused.value.hint


def test_what_a_kill_left_half_written_is_no_obstacle(tmp_path: Path) -> None:
    memory = FileMemory(tmp_path / "known.json")
    left = tmp_path / "known.json.new"
    left.write_bytes(b'{"version": 1, ' * 1000)
    left.chmod(0o666)
    memory.change(lambda _: seen(f"1.5.{A}"))
    assert memory.read() == seen(f"1.5.{A}")
    assert stat.S_IMODE(memory.path.stat().st_mode) == 0o600


def test_those_who_remember_at_once_lose_nothing_of_each_other(tmp_path: Path) -> None:
    path = tmp_path / "known.json"

    def remember(port: int) -> None:
        address, root = Address("h", port), hashlib.sha256(bytes([port])).hexdigest()

        def step(old: Memories) -> Memories:
            known = old.highest(root)
            place = Place(1, known.sequence + 1 if known else 0, A)
            return with_state(old, address, root, known, place)

        for _ in range(10):
            FileMemory(path).change(step)

    threads = [threading.Thread(target=remember, args=(port,)) for port in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = FileMemory(path).read()
    assert len(found.roots) == 4
    assert {len(places) for places in found.places.values()} == {10}


def test_the_largest_memory_can_be_read_again(tmp_path: Path) -> None:
    memory = FileMemory(tmp_path / "known.json")
    newest = 10**19 - 1
    places = tuple(Place(newest, newest - MOST_PLACES + n, A) for n in range(MOST_PLACES))
    roots = {f"{'h' * 253}:{65435 + n}": f"{n:064x}" for n in range(MOST_ADDRESSES)}
    largest = Memories(roots, dict.fromkeys(roots.values(), places))
    memory.change(lambda _: largest)
    assert memory.read() == largest


# --- verification and sessions ---


def trust(peer: Peer, address: Address, memory: StateMemory | None) -> TrustedCoordinator:
    return verify_coordinator(
        address,
        expected=peer.platform.expected_identity,
        root_ca_der=peer.platform.root_ca,
        collateral=peer.platform.collateral,
        timeout=10,
        memory=memory,
    )


def at_state(text: str | None) -> Peer:
    peer = Peer.new()
    peer.replies["GET", "/api/v2/status"] = STATUS
    tell(peer, text)
    return peer


def tell(peer: Peer, text: str | None) -> None:
    peer.extra_headers.clear()
    if text is not None:
        peer.extra_headers["Keyhouse-State"] = text


def test_a_session_refuses_an_answer_older_than_the_one_before(tmp_path: Path) -> None:
    peer, memory = at_state(f"1.5.{A}"), FileMemory(tmp_path / "known.json")
    with serving(peer, tmp_path) as address:
        with Coordinator(trust(peer, address, memory), timeout=10) as coordinator:
            tell(peer, f"1.6.{A}")
            assert coordinator.status().code == 3
            tell(peer, f"1.5.{A}")
            with pytest.raises(TrustError, match="rollback"):
                coordinator.status()
        with pytest.raises(TrustError, match="rollback"):
            trust(peer, address, memory)
        trust(peer, address, None)
        tell(peer, None)
        with pytest.raises(TrustError, match="shows no state"):
            trust(peer, address, memory)


def test_a_fork_is_noticed_on_an_answer_that_refuses_as_well(tmp_path: Path) -> None:
    peer, memory = at_state(f"1.5.{A}"), FileMemory(tmp_path / "known.json")
    peer.replies["GET", "/api/v2/status"] = 403, b'{"status":"fail","data":null,"message":"no"}'
    with (
        serving(peer, tmp_path) as address,
        Coordinator(trust(peer, address, memory), timeout=10) as coordinator,
    ):
        tell(peer, f"1.5.{B}")
        with pytest.raises(TrustError, match="fork"):
            coordinator.status()


def test_another_root_at_the_address_is_not_trusted_until_the_old_one_is_forgotten(
    tmp_path: Path,
) -> None:
    first, memory = at_state(f"1.5.{A}"), FileMemory(tmp_path / "known.json")
    with serving(first, tmp_path) as address:
        trust(first, address, memory)
    second = Peer.new(first.platform)
    with serving(second, tmp_path) as address:
        # The same address again: the port is another one now, so it is told what to remember.
        root = hashlib.sha256(first.root.der).hexdigest()
        memory.change(lambda _: with_state(Memories(), address, root, None, Place(1, 5, A)))
        with pytest.raises(TrustError, match="SHA-256"):
            trust(second, address, memory)
        memory.change(lambda memories: forgotten(memories, address))
        assert trust(second, address, memory).root_der == second.root.der
    assert memory.read() == Memories()  # it shows no state, so nothing of it is remembered


def test_an_unusable_memory_stops_before_anything_is_asked(tmp_path: Path) -> None:
    peer, path = at_state(f"1.5.{A}"), tmp_path / "known.json"
    path.write_bytes(b"{}")
    with serving(peer, tmp_path) as address, pytest.raises(MemoryUnusableError):
        trust(peer, address, FileMemory(path))
    assert peer.requests == []


def test_recovery_secrets_are_kept_before_the_memory_can_object(tmp_path: Path) -> None:
    peer, memory = at_state(f"1.5.{A}"), FileMemory(tmp_path / "known.json")
    shares = success({"recoverySecrets": {"rk": b"share"}, "missingAcknowledgments": 0})
    peer.replies["POST", "/api/v2/update"] = peer.replies["POST", "/api/v2/manifest"] = shares
    kept: list[dict[str, bytes]] = []
    with (
        serving(peer, tmp_path) as address,
        Coordinator(trust(peer, address, memory), timeout=10) as coordinator,
    ):
        tell(peer, f"1.4.{A}")
        for call in (coordinator.update, coordinator.set_manifest):
            with pytest.raises(TrustError, match="rollback"):
                call(b"{}", lambda given: kept.append(dict(given)))
    assert len(kept) == 2


def test_addresses_are_remembered_as_they_are_parsed() -> None:
    memories = with_state(Memories(), parse_address("[::1]:99"), ROOT, None, read_place(f"1.5.{A}"))
    assert memories.roots == {"[::1]:99": ROOT}
