"""Contexts: what they keep, what they fill in, and that what is typed wins as a whole."""

import json
import os
import stat
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import Result
from hypothesis import given, settings, strategies as st
from support.process.command_tree import typed
from support.samples.deployment import user

from keyhouse.base.user_files import FileUnreadableError
from keyhouse.cli.options.target import Target, TrustOptions
from keyhouse.cli.options.user import UserOption
from keyhouse.cli.parser.usage import WrongUsageError
from keyhouse.cli.secret import split_words
from keyhouse.cli.watch.command import WatchOptions
from keyhouse.client import ClientIdentity
from keyhouse.client.contexts import (
    Contexts,
    ContextUnusableError,
    NamedContext,
    SavedContext,
    as_toml,
    change,
    read,
    write,
)

HOST = "prod.example.com:4433"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("KEYHOUSE_CONTEXT", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def keep(name: str = "prod", *, use: bool = True, **fields: object) -> None:
    known = read(place())
    made = SavedContext(**{"address": HOST, "attestation": "/a.json", **fields})  # type: ignore[arg-type]
    write(place(), Contexts(name if use else known.current, {**known.contexts, name: made}))


def me(folder: Path) -> tuple[Path, Path]:
    certificate, key = folder / "me.crt", folder / "me.key"
    certificate.write_bytes(user("me").pem)
    key.write_bytes(user("me").key_pem)
    return certificate, key


def place() -> Path:
    return Path.cwd() / "keyhouse" / "contexts.toml"


def done(*words: str) -> Result:
    ended = typed(*words)
    assert ended.exit_code == 0, ended.stderr
    return ended


def test_contexts_are_added_used_listed_shown_and_removed() -> None:
    done("context", "add", "prod", "--address", HOST, "--attestation", "a.json", "--cert", "me.crt",
         "--key", "me.key")  # fmt: skip
    done("context", "add", "lab", "--address", "localhost", "--simulation-root", "root.pem")

    assert json.loads(done("context", "list", "--json").stdout)["current"] == "prod"
    done("context", "use", "lab")
    shown = json.loads(done("context", "show", "--json").stdout)
    assert shown == {
        "name": "lab",
        "current": True,
        "context": {"address": "localhost", "simulation-root": str(Path.cwd() / "root.pem")},
    }
    listed = done("context", "list").stdout
    assert "SIMULATION" in listed
    assert "\x1b" not in listed
    done("context", "remove", "lab")
    assert json.loads(done("context", "list", "--json").stdout) == {
        "current": None,
        "contexts": {
            "prod": {
                "address": HOST,
                "attestation": str(Path.cwd() / "a.json"),
                "cert": str(Path.cwd() / "me.crt"),
                "key": str(Path.cwd() / "me.key"),
            }
        },
    }


def test_file_is_for_its_owner_alone() -> None:
    done("context", "add", "prod", "--address", HOST)

    assert stat.S_IMODE(place().stat().st_mode) == 0o600
    assert stat.S_IMODE(place().parent.stat().st_mode) == 0o700
    there = {each.name: each for each in place().parent.iterdir()}
    assert there.keys() == {"contexts.toml", "contexts.toml.lock"}
    assert stat.S_IMODE(there["contexts.toml.lock"].stat().st_mode) == 0o600


def test_contexts_that_are_added_at_the_same_time_are_all_kept() -> None:
    names = [f"c{number}" for number in range(40)]

    def add(name: str) -> None:
        change(place(), lambda known: Contexts("", {**known.contexts, name: SavedContext()}))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, names))

    assert sorted(read(place()).contexts) == sorted(names)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("add", "prod"), "already exists"),
        (("add", "../x"), "cannot name a context"),
        (("add", "none"), "cannot name a context"),
        (("add", "x", "--cert", "c"), "--cert or --key is missing"),
        (("add", "x", "--address", "https://x"), "not host:port"),
        (("add", "x", "--log-max-age", "60"), "--log-max-age has no effect here"),
        (("add", "x", "--cert", "c", "--key", "k", "--pkcs12", "p"), "two users"),
        (("add", "x", "--memory", "/"), "the memory / must name a file"),
        (("use", "nobody"), "there is no context"),
        (("remove", "nobody"), "there is no context"),
        (("show", "nobody"), "there is no context"),
        (("add", "x", "--cert", os.fsdecode(b"\xff"), "--key", "k"), "is not UTF-8"),
        (("add", "x", "--pccs", os.fsdecode(b"https://\xff")), "is not UTF-8"),
    ],
    ids=str,
)
def test_what_makes_no_context_is_refused(words: tuple[str, ...], problem: str) -> None:
    keep()
    before = place().read_bytes()

    ended = typed("context", *words)

    assert ended.exit_code in {1, 2}
    assert problem in ended.stderr
    assert place().read_bytes() == before


@pytest.mark.parametrize(
    "content",
    [
        "current = 'x'",
        "contexts = 1",
        "[contexts.prod]\nattestatoin = '/a'",
        "[contexts.prod]\nattestation = 1",
        "[contexts.prod]\nattestation = '/a'\ncert = \"/a\\u0000b\"",
        '[contexts.prod]\naccepted-advisories = ["\\u0000"]',
        pytest.param(f"a = {'[' * 100_000}", id="arrays too deep"),
        pytest.param(f"a = {'9' * 10_000}", id="number too long"),
        "[contexts.prod]\naccepted-tcb-statuses = 'UpToDate'",
        "[contexts.'a b']",
        "also = 1",
        "not toml",
        "\xff",
    ],
)
def test_file_that_does_not_say_what_it_means_is_refused(content: str) -> None:
    place().parent.mkdir()
    place().write_bytes(content.encode("latin-1"))

    with pytest.raises(ContextUnusableError):
        read(place())
    assert typed("status", HOST, "--attestation", "a").exit_code == 1


def test_directory_in_the_place_of_the_file_is_refused_and_not_kept_open() -> None:
    place().mkdir(parents=True)
    in_use = sorted(Path("/proc/self/fd").iterdir())

    with pytest.raises(ContextUnusableError, match="is a directory"):
        read(place())

    assert sorted(Path("/proc/self/fd").iterdir()) == in_use


def test_contexts_that_cannot_be_written_say_what_to_do() -> None:
    place().parent.write_bytes(b"")

    with pytest.raises(ContextUnusableError, match="XDG_CONFIG_HOME") as refused:
        change(place(), lambda known: known)

    assert "XDG_CONFIG_HOME" in refused.value.hint


def test_file_that_others_can_write_is_refused() -> None:
    keep()
    place().chmod(0o620)

    with pytest.raises(ContextUnusableError, match="chmod 600 "):
        read(place())


words = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20)


@settings(max_examples=40)
@given(
    st.builds(SavedContext, address=words, cert=words, accepted_advisories=st.tuples(words, words))
)
def test_what_is_written_is_read(context: SavedContext) -> None:
    contexts = Contexts("a", {"a": context, "b.c": SavedContext()})

    tree = tomllib.loads(as_toml(contexts))

    assert tree["contexts"]["a"]["accepted-advisories"] == [*context.accepted_advisories]
    assert tree["contexts"]["a"].get("address", "") == context.address
    assert tree["contexts"]["b.c"] == {}


# --- what a context fills in ---


def test_context_in_use_names_the_coordinator_and_its_identity() -> None:
    keep(pccs="https://pccs.example.com", memory="none")

    found = Target().resolve()

    assert (found.host, found.attestation, found.pccs) == (
        HOST,
        Path("/a.json"),
        "https://pccs.example.com",
    )
    assert found.memory == "none"
    assert found.resolve() == found


def test_one_that_is_named_comes_before_the_variable_and_that_before_the_one_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("a", "b", "c"):
        keep(name, address=name)

    assert Target().resolve().host == "c"
    monkeypatch.setenv("KEYHOUSE_CONTEXT", "b")
    assert Target().resolve().host == "b"
    assert Target(context="a").resolve().host == "a"
    monkeypatch.setenv("KEYHOUSE_CONTEXT", "gone")
    with pytest.raises(ContextUnusableError, match="'gone'") as refused:
        Target().resolve()
    assert refused.value.hint.startswith("correct KEYHOUSE_CONTEXT; ")


def test_context_in_use_does_not_speak_for_other_coordinators() -> None:
    keep(simulation_root="/sim.pem")

    with pytest.raises(WrongUsageError, match=r"no expected identity: .*'prod'"):
        Target(host="other:4433").resolve()
    with pytest.raises(WrongUsageError, match=r"'prod' .*other:4433"):
        Target(host="other:4433", context="prod").resolve()
    assert Target(host=HOST).resolve().simulation_root == Path("/sim.pem")


def test_simulated_root_of_a_context_never_joins_an_identity_that_was_typed() -> None:
    keep(simulation_root="/sim.pem", accepted_tcb_statuses=("OutOfDate",), collateral="/c.json")

    found = Target(attestation=Path("/mine.json")).resolve()

    assert found.simulation_root is None
    assert found.accepted_tcb_statuses == []
    assert found.collateral is None


@pytest.mark.parametrize("typed_option", ["attestation", "simulation_root"])
def test_an_identity_that_is_typed_takes_no_witnesses_away(typed_option: str) -> None:
    keep(witness_policy="/witnesses.policy", log_max_age="60")
    own = {"attestation": Path("/mine.json"), typed_option: Path("/mine")}

    found = Target(**own).resolve()  # type: ignore[arg-type]
    assert (found.witness_policy, found.log_max_age) == (Path("/witnesses.policy"), 60)
    other = Target(**own, witness_policy=Path("/p"), log_max_age=5).resolve()  # type: ignore[arg-type]
    assert (other.witness_policy, other.log_max_age) == (Path("/p"), 5)
    none = Target(host=HOST, context="none", **own).resolve()  # type: ignore[arg-type]
    assert none.witness_policy is None


def test_other_collateral_takes_the_place_of_all_of_the_contexts() -> None:
    keep(pccs="https://pccs.example.com", pccs_ca="/ca.pem")

    found = Target(collateral=Path("/c.json")).resolve()

    assert (found.collateral, found.pccs, found.pccs_ca) == (Path("/c.json"), "", None)


@pytest.mark.parametrize("words", [("",), ("--context", "")], ids=["HOST", "--context"])
def test_variable_that_is_not_set_does_not_mean_the_context_in_use(words: tuple[str, ...]) -> None:
    keep()

    ended = typed("status", *words)

    assert ended.exit_code == 2
    assert "the value is empty" in ended.stderr
    assert "/a.json" in typed("status").stderr  # the identity of the context


def test_no_context_is_in_the_way_of_who_wants_none() -> None:
    keep()

    with pytest.raises(WrongUsageError, match=r"no coordinator: .*--context none"):
        Target(context="none").resolve()


def test_user_of_the_context_is_who_calls_unless_another_is_typed(tmp_path: Path) -> None:
    certificate, key = me(tmp_path)
    keep(cert=str(certificate), key=str(key))

    assert UserOption().identity(Target()) == ClientIdentity(certificate, key)
    with pytest.raises(WrongUsageError, match="no private key"):
        UserOption(cert=Path("other.crt")).identity(Target())


def test_token_of_the_context_is_the_users_if_no_other_key_is_there(tmp_path: Path) -> None:
    keep(cert="/me.crt", pkcs11_config="/token.json", pkcs11_key_label="me")
    with pytest.raises(FileUnreadableError, match=r"/token\.json"):
        UserOption().identity(Target())

    certificate, key = me(tmp_path)
    keep(cert=str(certificate), key=str(key), pkcs11_config="/t.json", pkcs11_key_label="me")
    assert UserOption().identity(Target()) == ClientIdentity(certificate, key)


@pytest.mark.parametrize("field", ["insecure", "namespace"])
def test_what_is_not_offered_is_refused_with_the_way_out(field: str) -> None:
    with pytest.raises(WrongUsageError) as refused:
        Target(host="x", attestation=Path("a"), **{field: field}).resolve()  # type: ignore[arg-type]
    assert refused.value.hint


# --- NAME... HOST ---


@pytest.mark.parametrize(
    ("typed_words", "names", "host"),
    [
        (["a", "b.c"], ["a"], "b.c"),
        (["a", "b", "h:1"], ["a", "b"], "h:1"),
    ],
)
def test_last_word_is_the_host_without_a_context(
    typed_words: list[str], names: list[str], host: str
) -> None:
    found, target = split_words(typed_words, TrustOptions())

    assert (found, target.host) == (names, host)


@pytest.mark.parametrize(
    ("typed_words", "names", "host"),
    [
        (["a"], ["a"], ""),
        (["a", "b"], ["a", "b"], ""),
        (["tls.crt"], ["tls.crt"], ""),
        (["a", "h:1"], ["a"], "h:1"),
        (["a", "10.0.0.7"], ["a"], "10.0.0.7"),
        (["a", "localhost"], ["a"], "localhost"),
    ],
)
def test_last_word_is_a_name_in_a_context_unless_it_looks_like_a_host(
    typed_words: list[str], names: list[str], host: str
) -> None:
    keep()

    found, target = split_words(typed_words, TrustOptions(attestation=Path("/b.json")))

    assert (found, target.host) == (names, host)


@pytest.mark.parametrize(
    ("typed_words", "names", "host"),
    [(["a", HOST], ["a"], HOST), (["a", "db.password", HOST], ["a", "db.password"], HOST)],
)
def test_name_that_looks_like_a_host_stands_before_the_host(
    typed_words: list[str], names: list[str], host: str
) -> None:
    keep()

    found, target = split_words(typed_words, TrustOptions())

    assert (found, target.host) == (names, host)


@pytest.mark.parametrize("option", ["", "prod"])
def test_name_that_is_treated_as_another_host_is_told(option: str) -> None:
    keep()

    with pytest.raises(WrongUsageError, match=r"db\.password .*'prod'") as refused:
        split_words(["a", "db.password"], TrustOptions(context=option))
    assert refused.value.hint.endswith(f"db.password {HOST}")


def test_without_a_context_one_word_names_no_secret() -> None:
    with pytest.raises(WrongUsageError, match="no name of a secret"):
        split_words(["h:4433"], TrustOptions())


@pytest.mark.parametrize("words", [["greeting"], ["greeting", "token"]])
def test_names_without_a_coordinator_are_not_read_as_an_address(words: list[str]) -> None:
    with pytest.raises(WrongUsageError, match=r"no coordinator: .*no context") as refused:
        split_words(words, TrustOptions())
    assert "keyhouse dev" in refused.value.hint


def test_name_without_a_dot_stays_an_address_beside_an_identity() -> None:
    found, target = split_words(["greeting", "h"], TrustOptions(attestation=Path("a.json")))

    assert (found, target.host) == (["greeting"], "h")


def test_missing_coordinator_names_the_folder_of_an_earlier_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keyhouse-dev" / "data").mkdir(parents=True)

    assert "start a coordinator: keyhouse dev (its state keyhouse-dev/" in typed("status").stderr


def test_missing_coordinator_names_the_only_context() -> None:
    keep(use=False)

    assert "hint: use a context: keyhouse context use prod\n" in typed("status").stderr


def test_an_empty_memory_says_so() -> None:
    shown = done("trust", "show", "--memory", "memory.json")

    assert shown.stdout == ""
    assert "no coordinator is remembered" in shown.stderr


def test_logs_watched_in_a_context_with_a_memory_are_kept_beside_it(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    usual = home / "keyhouse/watched-logs.json"

    def place(memory: str, state: Path | None = None) -> Path:
        named = NamedContext("dev", SavedContext(memory=memory), is_implied=True)
        return WatchOptions(state=state).place(named).path

    assert WatchOptions().place(None).path == usual
    assert place("") == place("none") == usual
    assert place("/dev-folder/memory.json") == Path("/dev-folder/watched-logs.json")
    assert place("/dev-folder/memory.json", state=home / "mine") == home / "mine"
