"""Mistakes of a newcomer beside a development coordinator: the first error is the actual one."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

import pytest
from support.process.command import Ended, run
from support.process.dev import dev
from support.process.server import PATIENCE
from support.process.start import KEYHOUSE, start
from support.process.terminal import on_a_terminal

pytestmark = pytest.mark.acceptance

_COLOURS: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_COLUMNS: Final = 60
_LINK: Final = re.compile(r"http://127\.0\.0\.1:[0-9]+/open\?token=[A-Za-z0-9_-]+")


class Home(NamedTuple):
    """The home of a newcomer, with a running development coordinator."""

    folder: Path
    address: str
    workload: str

    def type(self, *words: str, stdin: bytes = b"") -> Ended:
        return run(*words, env={"HOME": str(self.folder)}, folder=self.folder, stdin=stdin)

    def show(self, *words: str) -> list[str]:
        """Return the lines on a terminal of 60 columns, without colours."""
        environment = {"HOME": str(self.folder), "COLUMNS": str(_COLUMNS)}
        _, shown = on_a_terminal(*words, environment=environment, folder=self.folder)
        plain = _COLOURS.sub("", shown.replace("\r\n", "\n"))
        return [line.rpartition("\r")[2] for line in plain.splitlines()]

    @property
    def trust(self) -> tuple[str, ...]:
        return ("--attestation", "keyhouse-dev/data/simulation/attestation.json")


@contextmanager
def _home(folder: Path) -> Iterator[Home]:
    with dev(folder) as (_, ready):
        yield Home(folder, ready["clientApi"], ready["workloadApi"])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with _home(tmp_path_factory.mktemp("home")) as started:
        yield started


def test_misspelt_field_comes_before_a_missing_permission(home: Home) -> None:
    (home.folder / "typo.json").write_text('{"Packages":{"app":{"UniqeID":"00"}}}')
    for words in (("update", "apply", "typo.json", "--yes"), ("plan", "typo.json")):
        ended = home.type("manifest", *words)
        assert "Packages.app.UniqeID: unknown field" in ended.err
        assert "did you mean UniqueID?" in ended.err
        assert "permission" not in ended.err

    (home.folder / "right.json").write_text('{"Packages":{"app":{"SecurityVersion":2}}}')
    ended = home.type("manifest", "update", "apply", "right.json", "--yes")
    assert "UpdateSecurityVersion" in ended.err


def test_list_of_secrets_shows_the_source_and_a_missing_upload(tmp_path: Path) -> None:
    with _home(tmp_path) as home:
        assert re.search(
            r"^greeting +plain +by users +dev", home.type("secret", "list").out, re.MULTILINE
        )
        manifest = (home.folder / "keyhouse-dev/manifest.yaml").read_text()
        both = manifest.replace(
            "  greeting: {", "  later: {Type: plain, UserDefined: true}\n  greeting: {"
        )
        (home.folder / "both.yaml").write_text(both)
        changed = home.type("manifest", "update", "apply", "both.yaml", "--yes")
        assert changed.code == 0, changed.err
        listed = home.type("secret", "list").out
    assert re.search(r"^later +plain +by users, no upload yet", listed, re.MULTILINE)
    assert re.search(r"^token +symmetric-key +generated", listed, re.MULTILINE)


def test_root_of_a_coordinator_is_refused_as_the_root_of_a_machine(home: Home) -> None:
    words = ("status", home.address, *home.trust)
    wrong = home.type(*words, "--simulation-root", "keyhouse-dev/root.pem")
    assert wrong.err.startswith("error: keyhouse-dev/root.pem has no collateral.json beside it")
    assert "simulation/root.pem" in wrong.err

    missing = home.type(*words)
    assert "hint: pass --simulation-root FILE for a simulated machine" in missing.err


def test_certificate_that_is_not_indented_has_a_hint(home: Home) -> None:
    manifest = (home.folder / "keyhouse-dev/manifest.yaml").read_text()
    start, end = "-----BEGIN", "-----END CERTIFICATE-----\n"
    begin, last = manifest.index(start), manifest.index(end) + len(end)
    pasted = re.sub("^ +", "", manifest[begin:last], flags=re.MULTILINE)
    (home.folder / "pasted.yaml").write_text(manifest[:begin].rstrip(" ") + pasted)
    ended = home.type("manifest", "check", "pasted.yaml")
    assert "indent a text on several lines below its name, such as Certificate: |" in ended.err


def test_summary_of_a_plan_counts_its_signs(home: Home) -> None:
    manifest = (home.folder / "keyhouse-dev/manifest.yaml").read_text()
    larger = manifest.replace("Size: 128", "Size: 256").replace(
        "Secrets:\n", "Secrets:\n  new: {Type: symmetric-key, Size: 128, Shared: true}\n"
    )
    (home.folder / "larger.yaml").write_text(larger)
    plan = home.type("manifest", "plan", "larger.yaml").out
    changes = plan.partition("every update of this kind")[0]
    counts = {sign: len(re.findall(rf"^    \{sign} ", changes, re.MULTILINE)) for sign in "+~-"}
    words = {"+": "to add", "~": "to change", "-": "to remove"}
    expected = ", ".join(f"{counts[sign]} {word}" for sign, word in words.items() if counts[sign])
    assert f"summary: {expected}, 1 value lost\n" in plan


def test_launcher_without_a_program_names_the_missing_words(home: Home) -> None:
    machine = ("--platform", "simulation", "--simulated-machine", "keyhouse-dev/data")
    root = ("--root-certificate", "keyhouse-dev/root.pem")
    ended = home.type("run", "--type", "web", "--coordinator", home.workload, *machine, *root)
    assert "error: no program was named, and there is no ./marble\n" in ended.err
    assert "hint: name the program: -- PROGRAM, or Argv in the manifest\n" in ended.err


def test_nothing_pending_is_stated_without_a_terminal(home: Home) -> None:
    ended = home.type("manifest", "update", "acknowledge", "keyhouse-dev/manifest.yaml")
    assert ended.err.startswith("error: no update is pending\n")


def test_manifest_is_not_read_as_recovery_secrets(home: Home) -> None:
    (home.folder / "m.json").write_text('{"Packages": {}, "RecoveryKeys": {"a": "-----BEGIN"}}')
    key = home.folder / "rsa.key"
    make = ("genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out")
    subprocess.run(["openssl", *make, str(key)], check=True)
    ended = home.type("recover", "sign", "m.json", "--key", "rsa.key")
    assert ended.err.startswith("error: m.json is a manifest, not the file of the recovery secrets")


def test_usual_names_of_platforms_are_explained(home: Home) -> None:
    ended = home.type("serve", "--platform", "sgx")
    assert ended.code == 1
    assert "hint: use one of these values: auto, gramine" in ended.err
    assert "(sgx is called gramine here)" in ended.err


def test_doctor_does_not_warn_of_ports_of_the_verified_coordinator(home: Home) -> None:
    findings = json.loads(home.type("doctor", "--json").out)["findings"]
    ports = [each for each in findings if each["check"].startswith("port ")]
    assert len(ports) == 2
    assert all(each["level"] == "ok" for each in ports), ports


def test_console_refuses_an_unknown_context_at_its_start(home: Home) -> None:
    ended = home.type("console", "--context", "nope", "--no-browser")
    assert ended.code == 1
    assert ended.err.startswith("error: there is no context 'nope'\n")


def test_certificate_in_place_of_an_attestation_file_is_named(home: Home) -> None:
    root = ("--simulation-root", "keyhouse-dev/data/simulation/root.pem")
    ended = home.type("status", home.address, "--attestation", "keyhouse-dev/root.pem", *root)
    assert "error: is a certificate or a key (PEM)" in ended.err


def test_watch_ends_with_its_reader(home: Home) -> None:
    words = f"{KEYHOUSE} watch | head -1"
    done = subprocess.run(
        ["bash", "-c", words],
        env={"HOME": str(home.folder), "PATH": "/usr/bin:/bin"},
        cwd=home.folder,
        capture_output=True,
        timeout=50,  # less than the 60 s between two looks
        check=True,
    )
    assert b"the log begins" in done.stdout


def test_development_coordinator_opens_its_console(tmp_path: Path) -> None:
    printed = tmp_path / "printed"
    with printed.open("wb") as output:
        process = start(
            ("dev", "--console", "--client-port", "0", "--workload-port", "0"),
            output=output,
            errors=output,
            environment={"HOME": str(tmp_path), "BROWSER": "true"},
            folder=tmp_path,
        )
    try:
        link = _printed_link(printed)
        with socket.create_connection((link.hostname, link.port)) as connection:
            request = f"GET {link.path}?{link.query} HTTP/1.1\r\nHost: {link.netloc}\r\n\r\n"
            connection.sendall(request.encode())
            status = connection.recv(1024).split(b"\r\n")[0]
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    assert status.split()[1] in {b"200", b"303"}


def _printed_link(printed: Path) -> SplitResult:
    deadline = time.monotonic() + PATIENCE
    while (found := _LINK.search(printed.read_text("utf-8"))) is None:
        assert time.monotonic() < deadline, printed.read_text("utf-8")
        time.sleep(0.01)  # polling the output of a foreign process
    return urlsplit(found[0])


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("doctor",),
        ("manifest", "log"),
        ("manifest", "plan", "wide.yaml"),
        ("manifest", "check", "typo.yaml"),
        ("secret", "list"),
        ("context", "list"),
        ("secret", "get", "nothing"),
    ],
    ids=" ".join,
)
def test_output_fits_sixty_columns(home: Home, words: tuple[str, ...]) -> None:
    manifest = (home.folder / "keyhouse-dev/manifest.yaml").read_text()
    (home.folder / "wide.yaml").write_text(manifest.replace("Size: 128", "Size: 256"))
    (home.folder / "typo.yaml").write_text(manifest.replace("[token, greeting]", "[token, gone]"))
    lines = home.show(*words)
    assert lines
    wide = [line for line in lines if len(line) > _COLUMNS and len(line.split()) > 2]
    assert not wide, "\n".join(wide)


def test_value_on_the_command_line_is_refused_with_the_right_command(home: Home) -> None:
    ended = home.type("secret", "set", "greeting=hello")
    assert ended.code == 2
    assert ": printf %s VALUE | keyhouse secret set greeting --value -\n" in ended.err
    assert "hello" not in ended.err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("manifest", "update", "new.yaml"), "use keyhouse manifest update apply new.yaml"),
        (("manifest", "edit"), "then keyhouse manifest update apply FILE"),
        (("secret", "delete", "greeting"), "secrets are in the manifest"),
    ],
)
def test_words_of_other_tools_lead_to_commands(
    home: Home, words: tuple[str, ...], hint: str
) -> None:
    assert hint in home.type(*words).err


def test_directory_is_not_stored_in_place_of_a_file(home: Home) -> None:
    words = ("context", "add", "wrong", "--address", "127.0.0.1:1", "--attestation", "keyhouse-dev")
    ended = home.type(*words)
    assert ended.code == 1
    assert (
        ended.err
        == "error: keyhouse-dev is a directory, expected a file\nhint: name a file in it\n"
    )


def test_unreachable_coordinator_has_a_short_traceback(home: Home) -> None:
    program = "from keyhouse import Coordinator\nCoordinator.from_context('gone').status()\n"
    pem = ("--attestation", "keyhouse-dev/data/simulation/attestation.json")
    root = ("--simulation-root", "keyhouse-dev/data/simulation/root.pem")
    added = home.type("context", "add", "gone", "--address", "127.0.0.1:1", *pem, *root)
    assert added.code == 0, added.err
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"HOME": str(home.folder)},
        cwd=home.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "UnreachableError: cannot connect to 127.0.0.1:1" in done.stderr
    assert done.stderr.count('  File "') <= 6, done.stderr
