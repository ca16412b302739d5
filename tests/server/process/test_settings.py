"""What `keyhouse serve` can be told, and who may tell it."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from keyhouse.base.process.flags import Setting, SettingMisusedError, SettingRefusedError
from keyhouse.base.secret import Secret
from keyhouse.journal.shared.url import store_url
from keyhouse.journal.store.postgres_address import StoreUrlError
from keyhouse.server.process.settings import MOST_DAYS, SETTINGS, Settings, read_settings

_HOST = [setting for setting in SETTINGS if setting.kind == "host" and not setting.is_switch]
_MEASURED = [setting for setting in SETTINGS if setting.kind == "measured"]

_VARIABLES = [(setting, name) for setting in _HOST for name in setting.variables]


def examples(setting: Setting) -> list[str]:
    """Return two values that ``setting`` may have, neither the default."""
    if setting.choices:
        return [choice for choice in setting.choices if choice != setting.default][:2]
    if setting.flag == "--store":
        return ["postgresql://one/d", "postgresql://two/d"]
    if setting.flag in {"--replicas", "--store-standbys"}:
        return ["2", "64"]
    return [":1", ":2"] if setting.flag.endswith("-addr") else ["one", "two"]


def read(setting: Setting, flag: str = "", **environment: str) -> Settings:
    """Return the settings of a process with these variables, and ``setting`` as a flag."""
    goes_with = {
        "--startup-recovery-file": ["--startup-manifest", "m"],
        "--store-password-file": ["--store", "postgresql://user@host/d"],
        "--replicas": ["--store", "postgresql://user@host/d"],
        "--store-standbys": ["--store", "postgresql://user@host/d"],
    }
    needed = goes_with.get(setting.flag, [])
    return read_settings([*needed, setting.flag, flag] if flag else needed, environment)


def test_every_setting_is_measured_or_of_the_host_and_no_measured_one_has_a_variable() -> None:
    assert {setting.kind for setting in SETTINGS} == {"measured", "host"}
    assert [setting.variables for setting in _MEASURED] == [()] * len(_MEASURED)


@pytest.mark.parametrize(
    ("setting", "variable"), _VARIABLES, ids=lambda value: getattr(value, "flag", value)
)
def test_each_variable_sets_its_setting_and_the_flag_wins(setting: Setting, variable: str) -> None:
    one, two = examples(setting)
    first, second = read(setting, one), read(setting, two)

    assert first != second != read(setting) != first
    assert read(setting, **{variable: one}) == first
    assert read(setting, two, **{variable: one}) == second


@pytest.mark.parametrize("setting", _HOST, ids=lambda setting: setting.flag)
def test_an_earlier_variable_wins_and_an_empty_one_counts_as_unset(setting: Setting) -> None:
    one, two = examples(setting)
    for first, other in pairwise(setting.variables):
        both = {first: one, other: two}

        assert read(setting, **both) == read(setting, one)
        assert read(setting, **both | {first: ""}) == read(setting, two)
    assert read(setting, **dict.fromkeys(setting.variables, "")) == read(setting)


def test_the_defaults_ask_for_hardware_and_listen_everywhere() -> None:
    found = read_settings([], {})

    assert (found.platform, found.curve, found.confirm_clock) == ("auto", "P-256", False)
    assert found.client_addr == ("", 4433)
    assert found.data_dir == Path("keyhouse-data")
    assert found.notes == ()


@pytest.mark.parametrize("setting", _MEASURED, ids=lambda setting: setting.flag)
def test_no_guess_at_a_variable_changes_a_measured_setting(setting: Setting) -> None:
    word = setting.flag.removeprefix("--").replace("-", "_").upper()
    prefixes = ("KEYHOUSE", "EDG", "EDG_COORDINATOR", "COORDINATOR")
    for guess in ("simulation", "P-384", "1"):
        environment = {f"{prefix}_{word}": guess for prefix in prefixes}

        assert read_settings([], environment) == read_settings([], {})


_VARIABLE = st.one_of(
    st.sampled_from(["EDG_COORDINATOR_DEV_MODE", "EDG_DEBUG_LOGGING", "KEYHOUSE_DNS_NAMES"]),
    st.from_regex(r"(KEYHOUSE|EDG|OE|SGX)_[A-Z_]{1,12}", fullmatch=True),
)


@settings(max_examples=100)
@given(st.dictionaries(_VARIABLE, st.sampled_from(["", "0", "1", "simulation", "P-384", "yes"])))
def test_no_environment_at_all_decides_on_trust(environment: dict[str, str]) -> None:
    environment.pop("OE_SIMULATION", None)
    try:
        found = read_settings([], environment)
    except SettingRefusedError:  # a host setting with a value that cannot be
        return
    assert (found.platform, found.curve, found.confirm_clock) == ("auto", "P-256", False)


def test_a_simulation_asked_for_by_variable_is_refused_even_beside_the_flag() -> None:
    for arguments in ([], ["--platform", "simulation"]):
        with pytest.raises(SettingRefusedError) as refused:
            read_settings(arguments, {"OE_SIMULATION": "1"})
        assert "--platform simulation" in refused.value.hint
    assert read_settings([], {"OE_SIMULATION": "0"}).platform == "auto"


@pytest.mark.parametrize(
    ("variable", "reason"),
    [
        ("EDG_DISTRIBUTED_COORDINATOR", "share a database, see --store"),
        ("EDG_K8S_NAMESPACE", "no state is in Secrets of Kubernetes"),
        ("EDG_STORE_BACKEND", "share a database, see --store"),
        ("EDG_AZURE_CLIENT_ID", "the processor seals the state"),
        ("EDG_MAA_URL", "clients verify quotes themselves"),
    ],
)
def test_a_variable_without_an_equivalent_is_explained(variable: str, reason: str) -> None:
    (note,) = read_settings([], {variable: "value", "EDG_COORDINATOR_ADDR": ":1"}).notes
    assert note.startswith(f"{variable} has no effect: ")
    assert reason in note
    assert "value" not in note


def test_development_mode_only_changes_the_log() -> None:
    plain = read_settings([], {})
    found = read_settings([], {"EDG_COORDINATOR_DEV_MODE": "1"})

    assert found.log_format == "text"
    assert {
        field
        for field in Settings.__struct_fields__
        if getattr(found, field) != getattr(plain, field)
    } == {"log_format"}


def test_debug_logging_yields_to_a_level_that_is_named() -> None:
    debug = {"EDG_DEBUG_LOGGING": "1"}

    assert read_settings([], debug).log_level == "debug"
    assert read_settings([], debug | {"KEYHOUSE_LOG_LEVEL": "error"}).log_level == "error"
    assert read_settings(["--log-level", "info"], debug).log_level == "info"


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (":4433", "", 4433),
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("[::1]:65535", "::1", 65535),
        ("coordinator.example:1", "coordinator.example", 1),
    ],
)
def test_address_is_taken_apart(text: str, host: str, port: int) -> None:
    found = read_settings(["--client-addr", text, "--mesh-addr", text], {})

    assert found.client_addr == (host, port)
    assert found.mesh_addr == (host, port)


@pytest.mark.parametrize(
    "text",
    ["localhost", "localhost:", ":65536", ":-1", ":4433 ", ":\u0664", ":4_4", ":" + "0" * 9000],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(SettingRefusedError, match="--client-addr"):
        read_settings(["--client-addr", text], {})
    with pytest.raises(SettingRefusedError, match="EDG_COORDINATOR_CLIENT_ADDR"):
        read_settings([], {"EDG_COORDINATOR_CLIENT_ADDR": text})


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.flag)
def test_an_empty_flag_is_refused_by_name_if_there_is_a_default(setting: Setting) -> None:
    if setting.is_switch or not setting.default:
        return
    with pytest.raises(SettingRefusedError, match=setting.flag):
        read_settings([setting.flag, ""], {})


@pytest.mark.parametrize("flag", ["--platform", "--curve", "--log-level", "--log-format"])
def test_a_value_that_cannot_be_is_refused_with_those_that_can(flag: str) -> None:
    with pytest.raises(SettingRefusedError) as refused:
        read_settings([flag, "Simulation"], {})

    assert flag in refused.value.message
    assert refused.value.hint.startswith("use one of these values: ")
    assert "Simulation" not in str(refused.value)


def test_the_days_of_certificates_are_a_small_whole_number() -> None:
    assert read_settings([], {}).marble_certificate_days is None
    for text, days in (("1", 1), ("36500", MOST_DAYS)):
        found = read_settings(["--marble-certificate-days", text], {})
        assert found.marble_certificate_days == days
    for text in ("0", "-1", "1.5", " 1", "01", "36501", "\u0661", "9" * 5000, "one"):
        with pytest.raises(SettingRefusedError, match="--marble-certificate-days"):
            read_settings(["--marble-certificate-days", text], {})


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--data"], "unknown setting --data (did you mean --data-dir?)"),
        (["--dat", "x"], "unknown setting --dat (did you mean --data-dir?)"),
        (["--yes"], "unknown setting --yes (see keyhouse serve --help for all settings)"),
        (["word"], "unexpected argument 'word' (see keyhouse serve --help)"),
        (["--data-dir"], "--data-dir needs a value (see keyhouse serve --help)"),
        (["--data-dir", "--curve"], "--data-dir needs a value (see keyhouse serve --help)"),
        (["--data-dir", "-x"], "--data-dir needs a value (see keyhouse serve --help)"),
        (["--yes", "--data-dir"], "--data-dir needs a value (see keyhouse serve --help)"),
        (["--", "--help"], "unknown setting -- (see keyhouse serve --help for all settings)"),
        (
            ["--yes=secret", "x"],
            "unknown setting --yes (see keyhouse serve --help for all settings)",
        ),
        (["--confirm-clock=1"], "--confirm-clock takes no value (see keyhouse serve --help)"),
    ],
)
def test_wrong_usage_is_named_with_what_would_be_right(arguments: list[str], told: str) -> None:
    with pytest.raises(SettingMisusedError) as refused:
        read_settings(arguments, {})

    assert str(refused.value) == told


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--store", "postgresql://user:pass@host/d"], "--store .*--store-password-file"),
        (["--store", "postgresql://host/d?password=pass"], "--store .*--store-password-file"),
        (["--store-password-file", "f"], "--store-password-file"),
        (["--replace-lost-state"], "--replace-lost-state"),
        (
            ["--begin-new-log", "a", "--store", "postgresql://a@b/c"],
            "--begin-new-log .*--store",
        ),
        (
            [
                "--store",
                "postgresql://h/d",
                "--replace-lost-state",
                "--no-new-manifest-in-recovery",
            ],
            "--replace-lost-state .*--no-new-manifest-in-recovery",
        ),
    ],
)
def test_settings_of_a_store_that_cannot_be_are_refused(arguments: list[str], problem: str) -> None:
    with pytest.raises(SettingRefusedError, match=problem) as refused:
        read_settings(arguments, {})
    assert "pass@" not in str(refused.value)


def test_a_password_of_the_store_comes_from_the_variable_or_a_file(tmp_path: Path) -> None:
    given = read_settings([], {"KEYHOUSE_STORE": "postgresql://user:secret@host/d"})
    assert given.database == Secret(b"postgresql://user:secret@host/d")
    assert "secret" not in repr(given)
    file = tmp_path / "password"
    file.write_text("p/w:d@ #\nrest\n")
    url = "postgresql://user@one:1,two:2/d?sslmode=verify-full"
    given = read_settings(["--store", url, "--store-password-file", str(file)], {})
    expected = b"postgresql://user:p%2Fw%3Ad%40%20%23@one:1,two:2/d?sslmode=verify-full"
    assert given.database == Secret(expected)


def test_a_store_that_is_not_text_is_refused() -> None:
    with pytest.raises(SettingRefusedError, match=r"--store .*UTF-8"):
        read_settings(["--store", "postgresql://\udcff/d"], {})
    with pytest.raises(SettingRefusedError, match=r"KEYHOUSE_STORE .*UTF-8") as refused:
        read_settings([], {"KEYHOUSE_STORE": "postgresql://u:secret\udcff@h/d"})
    assert "secret" not in str(refused.value)
    with pytest.raises(StoreUrlError, match="cannot be read"):
        store_url("postgresql://\udcff/d", None)


@pytest.mark.parametrize(
    ("url", "content"),
    [
        ("postgresql://host/d", b"secret"),
        ("postgresql://user:other@host/d", b"secret"),
        ("mysql://user@host/d", b"secret"),
        ("postgresql://[user@host/d", b"secret"),
        ("postgresql://user@host/d", b""),
        ("postgresql://user@host/d", b"\nsecret"),
        ("postgresql://user@host/d", b"\xff"),
        ("postgresql://user@host/d", b"s" * 5000),
        ("postgresql://user@host/d", None),
    ],
)
def test_a_store_that_cannot_be_read_from_its_settings_is_refused(
    tmp_path: Path, url: str, content: bytes | None
) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    environment = {"KEYHOUSE_STORE": url, "KEYHOUSE_STORE_PASSWORD_FILE": str(file)}
    with pytest.raises(SettingRefusedError) as refused:
        _ = read_settings([], environment).database
    assert "secret" not in str(refused.value)
