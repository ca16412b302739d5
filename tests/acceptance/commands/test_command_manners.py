"""Contexts, kept certificates, identities and ``--json`` of commands, on a real coordinator."""

import json
import re
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
    pkcs12,
)
from support.process.command import Ended, run
from support.process.server import Server
from support.process.terminal import on_a_terminal
from support.samples.deployment import manifest, user

from keyhouse import __version__
from keyhouse.client.contexts import Contexts, SavedContext, write
from keyhouse.coordinator import Phase

pytestmark = pytest.mark.acceptance

PASSWORD = "correct horse"  # noqa: S105 of a file that is made here
READER = "reader"


class Desk:
    """A person with a folder, who has named the coordinator that runs."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder = folder
        self.host = f"127.0.0.1:{server.port}"
        machine = server.data / "simulation"
        self.trust = ("--attestation", str(machine / "attestation.json"),
                      "--simulation-root", str(machine / "root.pem"))  # fmt: skip
        self.environment = {"XDG_CONFIG_HOME": str(folder), "XDG_STATE_HOME": str(folder)}
        (folder / "me.crt").write_bytes(user(READER).pem)
        (folder / "me.key").write_bytes(user(READER).key_pem)

    def type(self, *words: str) -> Ended:
        """Type ``keyhouse`` with ``words``."""
        return run(*words, folder=self.folder, env=self.environment)

    def done(self, *words: str) -> str:
        """Type what has to succeed; return what it printed."""
        ended = self.type(*words)
        assert ended.code == 0, ended
        return ended.out


@pytest.fixture
def desk(tmp_path: Path, running: Server) -> Desk:
    made = Desk(tmp_path, running)
    machine = running.data / "simulation"
    here = SavedContext(
        address=made.host,
        attestation=str(machine / "attestation.json"),
        simulation_root=str(machine / "root.pem"),
        cert=str(tmp_path / "me.crt"),
        key=str(tmp_path / "me.key"),
    )
    write(tmp_path / "keyhouse" / "contexts.toml", Contexts("here", {"here": here}))
    return made


def test_host_trust_and_user_come_from_the_context(desk: Desk) -> None:
    assert desk.done("status").startswith("state     3  ")
    assert set(json.loads(desk.done("secret", "get", "shared", "key0", "--json"))["secrets"]) == {
        "shared",
        "key0",
    }
    assert desk.host not in desk.done("secret", "get", "shared", desk.host)


def test_flags_take_the_place_of_all_that_the_context_trusts(desk: Desk) -> None:
    ended = desk.type("status", desk.trust[0], desk.trust[1])

    assert ended.code == 1
    assert "no collateral" in ended.err


JSON = [
    ("status",),
    ("version",),
    ("version", "--context", "here"),
    ("manifest", "get"),
    ("manifest", "log"),
    ("manifest", "verify", "m.json"),
    ("certificate", "root"),
    ("certificate", "intermediate"),
    ("certificate", "chain"),
    ("secret", "get", "shared"),
    ("trust", "show"),
]


@pytest.mark.parametrize("words", JSON, ids=" ".join)
def test_json_is_one_object_on_one_line(desk: Desk, words: tuple[str, ...]) -> None:
    raw = manifest(FeatureGates=["SignQuoteEndpoint", "MonotonicCounter"])
    (desk.folder / "m.json").write_bytes(raw)

    (line,) = desk.done(*words, "--json").splitlines()

    assert isinstance(json.loads(line), dict)


@pytest.mark.parametrize(
    "words",
    [
        ("manifest", "update", "get"),
        ("manifest", "set", "m.json"),
        ("secret", "get", "no such"),
        ("recover", "public-key", "--unverified-deployment"),
        ("recover", "m.json", "--key", "me.key"),
        ("trust", "forget", "elsewhere"),
        ("package-info", "m.json"),
        ("store", "verify", "nowhere"),
    ],
    ids=" ".join,
)
def test_refusal_is_one_object_too(desk: Desk, words: tuple[str, ...]) -> None:
    (desk.folder / "m.json").write_bytes(manifest(secrets=1))

    ended = desk.type(*words, "--json")

    assert (ended.code, ended.out) == (1, "")
    error = json.loads(ended.err.splitlines()[-1])["error"]
    assert error["code"]
    assert error["message"]


def test_version_of_the_coordinator_is_asked_for(desk: Desk) -> None:
    assert (
        desk.done("version", desk.host)
        == f"keyhouse     {__version__}\ncoordinator  {__version__}\n"
    )


# --- certificates ---


def test_kept_certificates_are_compared(desk: Desk, servers: dict[Phase, Server]) -> None:
    chain = desk.done("certificate", "chain")
    root, intermediate = (desk.done("certificate", each) for each in ("root", "intermediate"))
    assert chain == intermediate + root
    x509.load_pem_x509_certificate(intermediate.encode()).verify_directly_issued_by(
        x509.load_pem_x509_certificate(root.encode())
    )

    desk.done("manifest", "get", "--keep-cert", "--coordinator-cert", "kept.pem")
    kept = desk.folder / "kept.pem"
    assert kept.read_text() == chain
    assert kept.stat().st_mode & 0o777 == 0o600
    desk.done("status", "--coordinator-cert", "kept.pem")

    other = Desk(desk.folder, servers[Phase.ACCEPTING_MANIFEST])
    named = (other.host, "--context", "none", *other.trust, "--coordinator-cert", "kept.pem")
    refused = other.type("status", *named)
    assert refused.code == 4
    assert "kept.pem" in refused.err


def test_certificates_are_kept_in_their_place_if_none_is_named(desk: Desk) -> None:
    desk.done("manifest", "get", "--keep-cert")

    kept = desk.folder / "keyhouse" / "coordinator-cert.pem"
    assert ssl.PEM_cert_to_DER_cert(
        kept.read_text().partition("\n-----END")[0] + "\n-----END CERTIFICATE-----"
    )
    assert kept.stat().st_mode & 0o777 == 0o600


# --- the quote ---


def test_quote_is_saved_and_made_for_the_nonce(desk: Desk) -> None:
    nonce = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    desk.done("status", "--nonce", nonce, "--save-sgx-quote", "q.bin")

    explained = json.loads(desk.done("attest", "explain", "q.bin", *desk.trust[2:], "--json"))
    assert explained["verified"] is True
    for wrong in ("not base64", "\u00fc", "AAE", "AAEC" * 400):
        ended = desk.type("status", "--nonce", wrong)
        assert (ended.code, "error: --nonce" in ended.err) == (1, True)


def test_states_of_the_platform_have_to_exist(desk: Desk) -> None:
    assert desk.type("status", "--accepted-tcb-statuses", "OutOfDate,UpToDate").code == 0
    ended = desk.type("status", "--accepted-tcb-statuses", "UpToDat")
    assert (ended.code, "'UpToDat'" in ended.err) == (1, True)


@pytest.mark.parametrize("option", ["--accepted-tcb-statuses", "--accepted-advisories"])
def test_an_empty_list_is_not_treated_as_none_given(desk: Desk, option: str) -> None:
    ended = desk.type("status", option, " , ")

    assert (ended.code, f"error: {option}" in ended.err) == (2, True)


def test_authority_for_a_pccs_that_is_not_asked_is_refused(desk: Desk) -> None:
    ended = desk.type("status", "--pccs-ca", "ca.pem")

    assert (ended.code, "error: --pccs-ca" in ended.err) == (2, True)


@pytest.mark.parametrize("option", ["--memory", "--coordinator-cert"])
@pytest.mark.parametrize("path", [".", "/"])
def test_directory_is_no_place_for_a_file(desk: Desk, option: str, path: str) -> None:
    ended = desk.type("manifest", "get", "--keep-cert", option, path)

    assert ended.code in {1, 2}
    assert f" {path}" in ended.err
    assert "defect" not in ended.err


# --- who calls ---


def test_user_may_be_in_a_pkcs12_file(desk: Desk) -> None:
    key = load_pem_private_key(user(READER).key_pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    certificate = x509.load_pem_x509_certificate(user(READER).pem)
    (desk.folder / "me.p12").write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"me",
            key,
            certificate,
            None,
            BestAvailableEncryption(PASSWORD.encode()),
        )
    )
    (desk.folder / "password").write_text(f"{PASSWORD}\n")
    (desk.folder / "wrong").write_text("wrong horse\n")

    words = ("secret", "get", "shared", "--json", "--pkcs12", "me.p12", "--pkcs12-password-file")
    assert "shared" in desk.done(*words, "password")
    refused = desk.type(*words, "wrong")
    assert refused.code == 1
    assert "check the file and its password" in refused.err
    assert "horse" not in refused.err


# --- secrets and terminals ---


def shown_to(desk: Desk, *words: str, **variables: str) -> tuple[int, str]:
    """Return how a command ended on a terminal, and what that showed."""
    environment = {"NO_COLOR": "1", **desk.environment, **variables}
    return on_a_terminal(*words, environment=environment, folder=desk.folder)


def test_secrets_are_shown_on_a_terminal_only_if_that_is_wanted(desk: Desk) -> None:
    value = re.search(r"base64 +(\S+)", desk.done("secret", "get", "shared"))
    assert value

    code, shown = shown_to(desk, "secret", "get", "shared")
    assert (code, value[1] in shown) == (2, False)
    assert "--show" in shown
    code, shown = shown_to(desk, "secret", "get", "shared", "--show")
    assert (code, value[1] in shown) == (0, True)
    assert re.search(rf"^context: \S+ \({desk.host}, SIMULATED\)\r$", shown, re.MULTILINE)
    code, shown = shown_to(desk, "secret", "get", "shared", "-o", "s.json")
    assert (code, value[1] in shown) == (0, False)
    assert (desk.folder / "s.json").stat().st_mode & 0o777 == 0o600


def test_long_work_is_shown_on_a_terminal_and_leaves_the_result(
    desk: Desk, running: Server
) -> None:
    backup = ("backup", str(running.data))
    code, shown = shown_to(desk, *backup, "made", "--platform", "simulation")

    assert code == 0
    for part in ("copying", "checking records", "decrypting records", "replaying"):
        assert re.search(f"backing up: {part} .* 0%", shown)
        assert shown.index(part) < shown.index("to restore the backup")
    assert "copying" not in desk.type(*backup, "second").err
    code, shown = shown_to(desk, *backup, "third", "--json")
    assert (code, "copying" in shown) == (0, False)


def test_a_manifest_is_indented_on_a_terminal_only(desk: Desk) -> None:
    code, shown = shown_to(desk, "manifest", "get")

    assert code == 0
    assert '\r\n  "Packages": {\r\n' in shown
    assert '\n  "Packages"' not in desk.done("manifest", "get")


@pytest.mark.parametrize(("columns", "is_drawn"), [("12", False), ("300", True)])
def test_table_is_whole_on_a_terminal_of_any_width(
    desk: Desk, columns: str, *, is_drawn: bool
) -> None:
    code, shown = shown_to(desk, "context", "list", NO_COLOR="", COLUMNS=columns)

    assert (code, desk.host in shown, "\u2500" in shown) == (0, True, is_drawn)


@pytest.mark.parametrize("columns", [80, 100])
def test_status_wraps_between_words(desk: Desk, columns: int) -> None:
    whole = json.loads(desk.done("status", "--json"))["message"]
    code, shown = shown_to(desk, "status", COLUMNS=str(columns))

    lines = [line.rpartition("\r")[2] for line in shown.split("\r\n")]
    assert code == 0
    assert all(len(line) <= columns for line in lines)
    assert whole in " ".join(line.strip() for line in lines)
