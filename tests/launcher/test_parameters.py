"""What a program can be given, which program it is, and when it is asked for again."""

from collections.abc import Mapping

import pytest

from keyhouse.base.errors import KeyhouseError, RefusedError, UnavailableError
from keyhouse.base.secret import Secret
from keyhouse.launcher import (
    AnswerUnreadableError,
    Delivered,
    LaunchRefusedError,
    program_of,
    retry,
)
from keyhouse.launcher.parameters import check_parameters


def _delivered(argv: tuple[str, ...] = (), env: Mapping[str, bytes] | None = None) -> Delivered:
    return check_parameters({}, env or {}, argv)


@pytest.mark.parametrize(
    ("words", "argv", "file", "arguments"),
    [
        ((b"/bin/app", b"-v"), (), b"/bin/app", (b"/bin/app", b"-v")),
        ((b"/bin/app", b"-v"), ("web", "é"), b"/bin/app", (b"web", "é".encode())),
        ((), ("./web", "-x"), b"./web", (b"./web", b"-x")),
        ((), (), b"./marble", (b"./marble",)),
        ((b"app",), ("web", ""), b"app", (b"web", b"")),
    ],
)
def test_program_by_command_line_and_manifest(
    words: tuple[bytes, ...], argv: tuple[str, ...], file: bytes, arguments: tuple[bytes, ...]
) -> None:
    program = program_of(words, {}, _delivered(argv))

    assert (program.file, program.argv) == (file, arguments)


def test_program_without_a_name_is_refused() -> None:
    with pytest.raises(LaunchRefusedError, match="name is empty"):
        program_of((b"",), {}, _delivered(("web",)))


def test_delivered_variables_replace_and_the_others_stay() -> None:
    program = program_of(
        (b"app",),
        {b"KEPT": b"\xff", b"REPLACED": b"old"},
        _delivered(env={"REPLACED": b"new", "ADDED": b"\xfe"}),
    )

    found = {name: value.reveal() for name, value in program.env.items()}
    assert found == {b"KEPT": b"\xff", b"REPLACED": b"new", b"ADDED": b"\xfe"}
    assert "new" not in repr(program)


def test_transparent_tls_that_nobody_would_do_stops_the_start() -> None:
    with pytest.raises(LaunchRefusedError, match="TLS tags"):
        check_parameters({}, {"MARBLE_TTLS_CONFIG": b"{}"}, ())


@pytest.mark.parametrize(
    ("env", "argv", "named"),
    [
        ({"NAME": b"a secret\0value"}, (), "'NAME'"),
        ({"": b"x"}, (), "''"),
        ({"A=B": b"x"}, (), "'A=B'"),
        ({"A\0B": b"x"}, (), r"'A\\x00B'"),
        ({}, ("app", "a secret\0"), "argument"),
        ({}, ("", "-x"), "first argument"),
    ],
)
def test_what_no_process_can_have_is_refused_by_name(
    env: Mapping[str, bytes], argv: tuple[str, ...], named: str
) -> None:
    with pytest.raises(AnswerUnreadableError, match=named) as refused:
        check_parameters({}, env, argv)

    assert "secret" not in str(refused.value)


def test_nothing_delivered_is_shown() -> None:
    found = check_parameters({"a": b"canary"}, {"B": b"canary"}, ())

    assert "canary" not in repr(found)
    assert found.files == {"a": Secret(b"canary")}


class _Clock:
    """Time that passes only in pauses and attempts."""

    def __init__(self) -> None:
        self.time = 100.0
        self.pauses: list[float] = []

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.time += seconds


def _retried(clock: _Clock, errors: list[KeyhouseError], fraction: float = 0) -> float:
    def attempt(left: float) -> float:
        if errors:
            raise errors.pop(0)
        return left

    return retry(
        attempt, seconds=60, clock=clock, on_retry=lambda *_: None, fraction=lambda: fraction
    )


def test_pauses_double_up_to_five_seconds() -> None:
    clock = _Clock()

    left = _retried(clock, [UnavailableError("later")] * 7)

    assert clock.pauses == [0.25, 0.5, 1, 2, 4, 5, 5]
    assert left == 60 - sum(clock.pauses)


def test_pauses_are_shortened_by_up_to_a_half() -> None:
    clock = _Clock()

    _retried(clock, [UnavailableError("later")] * 3, fraction=1)

    assert clock.pauses == [0.125, 0.25, 0.5]


def test_last_error_is_told_when_the_time_is_over() -> None:
    clock = _Clock()

    with pytest.raises(UnavailableError, match="later"):
        _retried(clock, [UnavailableError("later")] * 100)

    assert 55 <= clock.time - 100 <= 60


def test_refusal_is_final() -> None:
    clock = _Clock()

    with pytest.raises(RefusedError, match="no"):
        _retried(clock, [RefusedError("no")])

    assert clock.pauses == []
