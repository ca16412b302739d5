"""What `keyhouse run` can be told, and what only the command line may say."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from keyhouse.base.process.flags import SettingMisusedError, SettingRefusedError
from keyhouse.launcher.settings import RUN_SETTINGS, RunSettings, read_run_settings, reports_in_json


def _read(*words: str, env: Mapping[str, str] | None = None) -> RunSettings:
    return read_run_settings(["--root-certificate", "root.pem", *words], env or {})


def test_defaults_are_those_of_the_interface() -> None:
    found = _read("--type", "web")

    assert (found.coordinator, found.dns_names, found.uuid_file, found.timeout) == (
        "localhost:2001",
        "localhost",
        "uuid",
        60,
    )
    assert (found.platform, found.log_format, found.words) == ("auto", "text", ())


@pytest.mark.parametrize(
    ("env", "kind", "uuid_file"),
    [
        ({"EDG_MARBLE_TYPE": "b"}, "b", "uuid"),
        ({"EDG_MARBLE_TYPE": "b", "KEYHOUSE_MARBLE_TYPE": "a"}, "a", "uuid"),
        ({"EDG_MARBLE_TYPE": "b", "KEYHOUSE_MARBLE_TYPE": ""}, "b", "uuid"),
        ({"EDG_MARBLE_TYPE": "b", "EDG_MARBLE_UUID_FILE": "/id"}, "b", "/id"),
    ],
)
def test_own_variables_come_first_and_empty_ones_do_not_count(
    env: Mapping[str, str], kind: str, uuid_file: str
) -> None:
    found = _read(env=env)

    assert (found.type, found.uuid_file) == (kind, uuid_file)
    assert _read("--type", "flag", env=env).type == "flag"


def test_words_behind_the_dashes_are_the_programs_own() -> None:
    found = _read("--type", "web", "--", "app", "--type", "db", "--", "\udcff")

    assert found.type == "web"
    assert found.words == (b"app", b"--type", b"db", b"--", b"\xff")


@pytest.mark.parametrize("value", ["json", "JSON", "Json"])
def test_json_may_be_spelled_in_any_case(value: str) -> None:
    assert _read("--type", "web", env={"EDG_LOG_FORMAT": value}).log_format == "json"
    assert _read("--type", "web", env={"EDG_LOG_FORMAT": "text"}).log_format == "text"


def test_another_format_is_refused_on_the_command_line_and_means_text_in_a_variable() -> None:
    with pytest.raises(SettingRefusedError, match="--log-format"):
        _read("--type", "web", "--log-format", "xml")
    assert _read("--type", "web", env={"EDG_LOG_FORMAT": "xml"}).log_format == "text"


@pytest.mark.parametrize("name", ["KEYHOUSE_LOG_FORMAT", "EDG_LOG_FORMAT"])
def test_wrong_settings_are_reported_as_the_environment_wants_it(name: str) -> None:
    assert reports_in_json({name: "JSON"})
    assert not reports_in_json({name: "text"})
    assert not reports_in_json({"KEYHOUSE_LOG_FORMAT": "text", "EDG_LOG_FORMAT": "json"})
    assert not reports_in_json({})


def test_no_variable_decides_on_trust() -> None:
    measured = [setting for setting in RUN_SETTINGS if setting.kind == "measured"]
    env = {
        f"{prefix}_{setting.flag[2:].replace('-', '_').upper()}": "x"
        for setting in measured
        for prefix in ("KEYHOUSE", "EDG", "KEYHOUSE_MARBLE", "EDG_MARBLE")
    }

    found = _read("--type", "web", env=env)

    assert {setting.flag for setting in measured} >= {
        "--platform",
        "--root-certificate",
        "--attestation",
        "--simulation-root",
        "--unverified-coordinator",
    }
    assert found == _read("--type", "web")
    assert all(not setting.variables for setting in measured)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "the marble type is missing (pass --type NAME, or set KEYHOUSE_MARBLE_TYPE)"),
        (("--type", "web", "app"), "unexpected argument 'app' (put -- before the program: "),
        (("--type", "web", "--insecure"), "unknown setting --insecure (see keyhouse run --help "),
        (("--typ", "web"), "unknown setting --typ (did you mean --type?)"),
        (("--pin=1234",), "unknown setting --pin ("),
        (("--type",), "--type needs a value (see keyhouse run --help)"),
        (("--unverified-coordinator=no",), "--unverified-coordinator takes no value"),
        (
            ("--type", "web", "--unverified-coordinator"),
            "--unverified-coordinator contradicts --root-certificate",
        ),
    ],
)
def test_wrong_usage_is_named_with_what_would_be_right(words: Sequence[str], told: str) -> None:
    with pytest.raises(SettingMisusedError) as refused:
        _read(*words)

    assert str(refused.value).startswith(told)


def test_coordinator_is_verified_unless_the_command_line_says_that_it_is_not() -> None:
    with pytest.raises(SettingMisusedError, match="to verify the coordinator"):
        read_run_settings(["--type", "web"], {})

    assert read_run_settings(
        ["--type", "web", "--unverified-coordinator"], {}
    ).unverified_coordinator
    assert not read_run_settings(["--type", "web", "--attestation", "a"], {}).unverified_coordinator


@pytest.mark.parametrize(
    "words",
    [
        ("--type", ""),
        ("--type", "\udcff"),
        ("--type", "web", "--timeout", "soon"),
        ("--type", "web", "--timeout", "-1"),
        ("--type", "web", "--timeout", "٣"),
        ("--type", "web", "--platform", "sgx"),
        ("--type", "web", "--simulation-root", "root.pem"),
        ("--type", "web", "--pccs", "https://pccs"),
        ("--type", "web", "--root-certificate", ""),
        ("--type", "web", "--simulated-identity", "web.json"),
        ("--type", "web", "--simulated-identity", "web.json", "--platform", "gramine"),
    ],
    ids=ascii,
)
def test_value_that_cannot_be_is_refused(words: Sequence[str]) -> None:
    with pytest.raises(SettingRefusedError):
        _read(*words)


def test_attestation_may_say_whose_collateral() -> None:
    found = _read("--type", "web", "--attestation", "a.json", "--simulation-root", "root.pem")

    assert (found.attestation, found.simulation_root) == (Path("a.json"), Path("root.pem"))
