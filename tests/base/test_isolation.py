"""Isolation of a process: the conditions for a second start, and the remaining variables."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from keyhouse.base.process.isolation import (
    HELD_PREFIX,
    clean_environment,
    hold_environment,
    isolated_environment,
)

_ID = 4711
_OF_A_SERVICE = {
    "PATH": "/usr/bin",
    "HOME": "/root",
    "INVOCATION_ID": "0a",
    "KUBERNETES_SERVICE_HOST": "10.0.0.1",
    "KUBERNETES_PORT_443_TCP_ADDR": "10.0.0.1",
}
_OF_A_SESSION = {
    "SHELL": "/bin/bash",
    "LS_COLORS": "di=01;34",
    "SSH_CONNECTION": "192.0.2.1 50000 192.0.2.2 22",
    "XDG_RUNTIME_DIR": "/run/user/0",
    "VIRTUAL_ENV": "/srv/keyhouse/.venv",
}
_SETTINGS = {"KEYHOUSE_LOG_LEVEL": "debug", "EDG_MARBLE_TYPE": "web", "LANG": "C", "LC_ALL": "C"}
_MEASURED = {"KEYHOUSE_ISOLATED": "measured"}

_SHOWS = """
import json, os
from keyhouse.base.process.isolation import isolate, release_environment
isolate("no.second.start", [], hold=True)
held = {os.fsdecode(name): os.fsdecode(value) for name, value in release_environment().items()}
print(json.dumps([dict(os.environ), held]))
"""


def _held(environment: Mapping[str, str]) -> dict[str, str]:
    return {HELD_PREFIX + name: value for name, value in environment.items()}


def test_held_variables_have_names_without_effect() -> None:
    given = {"LD_PRELOAD": "x.so", "PYTHONPATH": "/evil", "KEYHOUSE_MARBLE_TYPE": "web"}

    kept = hold_environment(given)

    assert set(kept) == {HELD_PREFIX + name for name in given}
    # No outsider can set a held variable.
    assert clean_environment(kept | given) == {"KEYHOUSE_MARBLE_TYPE": "web"}


@pytest.mark.parametrize(
    "given", [{}, _SETTINGS, _OF_A_SERVICE, _OF_A_SESSION, _OF_A_SERVICE | _SETTINGS]
)
def test_variables_without_effect_are_removed_and_settings_stay(given: dict[str, str]) -> None:
    kept = {name: value for name, value in given.items() if name in _SETTINGS}

    assert isolated_environment(given, _ID, hold=False) == kept
    assert isolated_environment(given, _ID, hold=True) == kept | _held(given)


@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GLIBC_TUNABLES", "MALLOC_ARENA_MAX"),
        *("PYTHONPATH", "PYTHONHOME", "PYTHONINSPECT", "OPENSSL_CONF", "SSLKEYLOGFILE"),
        *("GCONV_PATH", "LOCPATH", "TMPDIR", "HTTPS_PROXY", "COVERAGE_PROCESS_START"),
        *("XDG_CONFIG_HOME", "LESSKEY", "LANGUAGE", "SSH_ASKPASS"),
        *("path", "", "OF_ANOTHER_PROGRAM", "A_SERVICE_HOST", f"{HELD_PREFIX}PATH"),
    ],
)
def test_any_other_variable_needs_a_second_start(name: str) -> None:
    assert isolated_environment(_OF_A_SERVICE | {name: ""}, _ID, hold=False) is None
    assert isolated_environment(_OF_A_SERVICE | {name: ""}, _ID, hold=True) is None


@pytest.mark.parametrize("mark", ["", "1", "Measured", "measured ", "true", f"{_ID} "])
def test_mark_that_says_something_else_needs_a_second_start(mark: str) -> None:
    assert isolated_environment({"KEYHOUSE_ISOLATED": mark}, _ID, hold=False) is None


def test_second_start_is_told_by_its_number_and_has_what_the_first_one_held() -> None:
    second = {"KEYHOUSE_ISOLATED": str(_ID)} | _SETTINGS | _held(_OF_A_SERVICE)

    assert isolated_environment(second, _ID, hold=True) == _SETTINGS | _held(_OF_A_SERVICE)
    assert isolated_environment(second, _ID + 1, hold=True) is None


def test_measured_variables_are_held_for_the_program_and_only_settings_have_effect() -> None:
    measured = {"LD_LIBRARY_PATH": "/lib", "SSLKEYLOGFILE": "/keys", f"{HELD_PREFIX}A": "a"}
    given = measured | _SETTINGS | _MEASURED

    assert isolated_environment(given, _ID, hold=False) == _SETTINGS
    assert isolated_environment(given, _ID, hold=True) == _SETTINGS | _held(measured | _SETTINGS)


def _started(
    *words: str, env: Mapping[str, str], closed: Sequence[int] = ()
) -> subprocess.CompletedProcess[str]:
    close = " ".join(f"{number}>&-" for number in closed)
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {close}', "sh", sys.executable, *words, "-c", _SHOWS],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (_OF_A_SERVICE | {"LC_ALL": "C.UTF-8"}, {"LC_ALL": "C.UTF-8"}),
        (_MEASURED | {"PYTHONPATH": "/elsewhere", "LANG": "C.UTF-8"}, {"LANG": "C.UTF-8"}),
    ],
    ids=["without effect", "measured"],
)
def test_isolated_interpreter_starts_once(given: dict[str, str], kept: dict[str, str]) -> None:
    found: Any = json.loads(_started("-I", "-B", env=given).stdout)

    held = {name: value for name, value in found[1].items() if name not in {"PWD", "SHLVL", "_"}}
    assert found[0] == kept
    assert held == {name: value for name, value in given.items() if name not in _MEASURED}


@pytest.mark.parametrize(
    ("words", "given", "closed"),
    [
        ((), _OF_A_SERVICE, ()),
        (("-I",), _OF_A_SERVICE, ()),
        (("-E", "-s", "-P", "-B"), _OF_A_SERVICE, ()),
        ((), _MEASURED, ()),
        (("-I", "-B"), _OF_A_SERVICE | {"OPENSSL_CONF": "x"}, ()),
        (("-I", "-B"), _OF_A_SERVICE, (1,)),
        (("-I", "-B"), _MEASURED, (0,)),
    ],
)
def test_what_is_not_isolated_starts_again(
    words: Sequence[str], given: dict[str, str], closed: Sequence[int]
) -> None:
    ended = _started(*words, env=given, closed=closed)

    assert ended.returncode == 1
    assert "No module named 'no'" in ended.stderr
