"""The commands that people and scripts use, against real processes: what they say, how they end."""

import json
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.process.command import Ended, run
from support.process.server import Server, free_port
from support.process.start import KEYHOUSE
from support.process.terminal import on_a_terminal
from support.samples.deployment import manifest, user

from keyhouse import __version__
from keyhouse.coordinator import Phase

pytestmark = pytest.mark.acceptance


def trust(server: Server) -> tuple[str, ...]:
    """Return the options that trust the simulated machine of ``server``."""
    folder = server.data / "simulation"
    return (
        "--attestation",
        str(folder / "attestation.json"),
        "--simulation-root",
        str(folder / "root.pem"),
    )


def refused_in_json(ended: Ended, code: int) -> dict[str, str]:
    """Return the error of a command that failed with ``code``, told as one JSON object."""
    assert (ended.code, ended.out) == (code, ""), ended
    (line,) = ended.err.splitlines()
    (error,) = json.loads(line).values()
    assert isinstance(error, dict)
    return error


def status(server: Server, *words: str) -> Ended:
    return run("status", f"127.0.0.1:{server.port}", *trust(server), *words)


def one_object(ended: Ended) -> dict[str, object]:
    """Return the one JSON object that a command printed, and nothing else."""
    assert ended.err == ""
    (line,) = ended.out.splitlines()
    decoded = json.loads(line)
    assert isinstance(decoded, dict)
    return decoded


def refused(ended: Ended, code: int) -> str:
    """Return the message of a command that failed with ``code``."""
    assert (ended.code, ended.out) == (code, ""), ended
    first, *rest = ended.err.splitlines()
    assert first.startswith("error: "), ended.err
    assert all(line.startswith("hint: ") for line in rest), ended.err
    return first.removeprefix("error: ")


# --- status ---


@pytest.mark.parametrize(
    ("phase", "code"),
    [(Phase.RECOVERY, 1), (Phase.ACCEPTING_MANIFEST, 2), (Phase.RUNNING, 3)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_status_of_a_trusted_coordinator(
    servers: dict[Phase, Server], phase: Phase, code: int
) -> None:
    ended = status(servers[phase])

    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"state     {code}  ")
    assert "SIMULATION: proves nothing about hardware" in ended.out
    assert "\x1b" not in ended.out
    found = one_object(status(servers[phase], "--json"))
    assert (found["code"], found["simulation"]) == (code, True)
    note = str(found["notProtected"])
    assert note.startswith("no witnesses: ") if code == Phase.RUNNING else note == ""
    assert ("rollback  no witnesses: " in ended.out) is bool(note)


def test_nobody_at_the_address_is_unreachable(running: Server) -> None:
    ended = run("status", f"127.0.0.1:{free_port()}", *trust(running), "--json")

    error = refused_in_json(ended, 3)
    assert error["code"] == "unreachable"
    assert error["message"].endswith(": connection refused")


def test_another_identity_than_the_expected_is_a_failure_of_trust(
    running: Server, tmp_path: Path
) -> None:
    expected = json.loads((running.data / "simulation" / "attestation.json").read_text())
    expected["UniqueID"] = "00" * 32
    other = tmp_path / "attestation.json"
    other.write_text(json.dumps(expected))

    ended = status(running, "--attestation", str(other), "--json")

    error = refused_in_json(ended, 4)
    assert error["code"] == "trust-failed"
    assert "not trusted" in error["message"]


def test_the_root_of_another_simulated_machine_is_a_failure_of_trust(
    servers: dict[Phase, Server],
) -> None:
    other = servers[Phase.ACCEPTING_MANIFEST].data / "simulation"

    for words in (
        ("--simulation-root", str(other / "root.pem")),
        ("--collateral", str(other / "collateral.json")),
    ):
        assert "not trusted" in refused(status(servers[Phase.RUNNING], *words), 4)


def test_a_simulated_coordinator_is_not_trusted_under_the_real_root(running: Server) -> None:
    folder = running.data / "simulation"

    ended = run(
        "status",
        f"127.0.0.1:{running.port}",
        "--attestation",
        str(folder / "attestation.json"),
        "--collateral",
        str(folder / "collateral.json"),
    )

    assert "not trusted" in refused(ended, 4)


@contextmanager
def impostor(folder: Path, status: int, body: bytes) -> Iterator[int]:
    """Serve ``body`` at every path over TLS, with a certificate of its own; give the port."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    pem = folder / "impostor.pem"
    pem.write_bytes(user("impostor").pem + user("impostor").key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def test_an_impostor_that_repeats_the_true_quote_is_a_failure_of_trust(
    running: Server, tmp_path: Path
) -> None:
    with running.client() as anyone:
        true = anyone.get("/api/v2/quote").body
    with impostor(tmp_path, 200, true) as port:
        message = refused(run("status", f"127.0.0.1:{port}", *trust(running)), 4)
    assert "not the root of its quote" in message


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (404, b"<html>not found</html>"),
        (200, b""),
        (200, b'{"status":"success","data":{"cert":"","quote":""}}'),
        (403, b'{"status":"error","data":null,"message":"go away \x1b[31m"}'),
    ],
    ids=["a website", "nothing", "an empty quote", "a refusal"],
)
def test_a_server_that_is_no_coordinator_is_a_failure_of_trust(
    running: Server, tmp_path: Path, code: int, body: bytes
) -> None:
    with impostor(tmp_path, code, body) as port:
        ended = run("status", f"127.0.0.1:{port}", *trust(running))
    assert "not trusted" in refused(ended, 4)
    assert "\x1b" not in ended.err


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("status", "localhost"),
        ("status", "localhost", "--attestation"),
        ("status", "localhost", "--attestation", "f", "--insecure"),
        ("manifest",),
        ("manifest", "check"),
        ("manifest", "burn"),
        ("burn",),
        (),
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2(words: tuple[str, ...]) -> None:
    assert run(*words).code == 2


@pytest.mark.parametrize(
    ("option", "content"),
    [
        ("--attestation", b"{"),
        ("--attestation", b"{}"),
        ("--attestation", b"\xff\xfe"),
        ("--simulation-root", b"no certificate"),
        ("--collateral", b"[]"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(
    running: Server, tmp_path: Path, option: str, content: bytes
) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    words: tuple[str, ...] = (option, str(file))
    if option == "--simulation-root":
        words += ("--collateral", str(running.data / "simulation" / "collateral.json"))

    ended = status(running, *words)

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("error: ")
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("option", ["--attestation", "--simulation-root", "--collateral"])
def test_a_file_that_is_not_there_is_named(running: Server, tmp_path: Path, option: str) -> None:
    missing = str(tmp_path / "none\x1b[31m")
    words = (option, missing, "--collateral", missing)

    message = refused(status(running, *words), 1)

    assert message.startswith(f"cannot read {tmp_path}/none\\x1b[31m: no such file")


# --- manifest check ---


def test_a_valid_manifest_ends_with_0_and_its_fingerprint(running: Server, tmp_path: Path) -> None:
    file = tmp_path / "manifest.json"
    raw = manifest(FeatureGates=["SignQuoteEndpoint", "MonotonicCounter"])
    file.write_bytes(raw)
    with running.client() as anyone:
        fingerprint = anyone.get("/api/v2/manifest").data["manifestFingerprint"]

    ended = run("manifest", "check", str(file))
    assert (ended.code, ended.out) == (0, f"valid  {fingerprint}\n")
    found = one_object(run("manifest", "check", str(file), "--json"))
    assert (found["valid"], found["fingerprint"]) == (True, fingerprint)
    assert run("manifest", "check", "-", stdin=raw).out == f"valid  {fingerprint}\n"


def test_an_invalid_manifest_ends_with_1_and_every_problem() -> None:
    wrong = json.loads(manifest())
    wrong["Packages"]["app"]["UniqueID"] = "00"
    wrong["Marbles"]["app"]["Package"] = "none\x1b[31m"
    raw = json.dumps(wrong).encode()

    ended = run("manifest", "check", "-", stdin=raw)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("error: ")
    assert "UniqueID" in ended.err
    assert "Marbles.app.Package" in ended.err
    assert "\x1b" not in ended.err

    ended = run("manifest", "check", "-", "--json", stdin=raw)
    assert ended.code == 1
    found = one_object(ended)
    assert found["valid"] is False
    problems = found["problems"]
    assert isinstance(problems, list)
    assert {problem["at"] for problem in problems} >= {"Marbles.app.Package"}


@pytest.mark.parametrize("raw", [b"", b"\xff\x00", b"{", b"null"])
def test_what_is_not_a_manifest_at_all_is_refused(raw: bytes) -> None:
    ended = run("manifest", "check", "-", "--json", stdin=raw)

    assert ended.code == 1
    assert one_object(ended)["valid"] is False


def test_a_manifest_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none", "no such file"), (tmp_path, "is a directory")):
        message = refused(run("manifest", "check", str(path)), 1)
        assert message.startswith(f"cannot read {path}: {reason}")


@pytest.mark.parametrize("words", [("version",), ("manifest", "check", "-", "--json")])
def test_output_that_cannot_be_written_is_a_failure_without_a_traceback(
    words: tuple[str, ...],
) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [KEYHOUSE, *words],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == (
        b"error: cannot write the output: no space left on device\n"
        b"hint: check the file or the device that receives the output\n"
    )


@pytest.mark.parametrize("words", [("version",), ("manifest", "schema")])
def test_a_reader_that_has_gone_is_told_nothing(words: tuple[str, ...]) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run([KEYHOUSE, *words], stdout=theirs, stderr=subprocess.PIPE, check=False)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize(
    ("words", "closed", "code", "said"),
    [
        ("version", ">&-", 1, b"error: cannot write the output: bad file descriptor\nhint: "),
        ("version --json", ">&- <&-", 1, b"error: cannot write the output: bad file desc"),
        ("manifest check -", "<&-", 1, b"<standard input>:1:1: error: is empty"),
        ("manifest template", "<&-", 1, b"error: no option names a part"),
        ("manifest check none", "2>&-", 1, b""),
        ("version", "2>&-", 0, b""),
    ],
)
def test_streams_that_are_closed_at_the_start_are_no_defect(
    words: str, closed: str, code: int, said: bytes
) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"exec {KEYHOUSE} {words} {closed}"], capture_output=True, check=False
    )
    assert done.returncode == code
    assert said in done.stderr
    assert b"defect" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("store", "list", "a" * 300),
        ("backup", "a" * 300, "b"),
        ("package-info", "a" * 300),
        ("manifest", "diff", "a" * 300, "b"),
        ("doctor", "--data-dir", "a" * 300),
    ],
    ids=lambda words: words[0],
)
def test_a_path_that_cannot_be_used_is_named(words: tuple[str, ...]) -> None:
    ended = run(*words, "--json")

    if sys.version_info >= (3, 14):
        # For pathlib, a name that is too long does not exist. doctor accepts a missing directory.
        assert words[0] == "doctor" or "a" * 300 in ended.err
        return
    error = json.loads(ended.err)["error"]
    assert (ended.code, error["code"]) == (1, "file-unreadable")
    assert error["message"] == f"cannot use {'a' * 300}: file name too long"


def test_invalid_names_of_the_coordinator_are_not_told_of_the_manifest(
    tmp_path: Path,
) -> None:
    (tmp_path / "m.json").write_bytes(manifest())

    ended = run("manifest", "check", str(tmp_path / "m.json"), "--dns-names", "a b")

    assert ended.code == 2
    assert ended.err.startswith("error: entry [0] of --dns-names is neither a DNS name")


@pytest.mark.parametrize("option", ["--package", "--marble"])
def test_names_that_are_not_text_make_no_manifest(option: str) -> None:
    parts = {"--package": "app", "--marble": "web"} | {option: os.fsdecode(b"\xff")}
    package, marble = parts["--package"], parts["--marble"]
    words = ("--package", f"{package}={'0' * 64}", "--marble", marble)

    ended = run("manifest", "template", *words)

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("error: a name is not UTF-8")


def test_names_that_are_not_text_are_escaped_in_json() -> None:
    ended = run("manifest", "signature", os.fsdecode(b"\xff"), "--json")

    assert (ended.code, ended.out) == (1, "")
    assert json.loads(ended.err)["error"]["message"].startswith("cannot read \udcff: no such")


# --- help, version, colours ---


def test_the_help_lists_every_command_and_the_version_is_the_packages() -> None:
    ended = run("--help")
    assert (ended.code, ended.err) == (0, "")
    for name in ("serve", "status", "manifest", "version"):
        assert f"{name} " in ended.out
    assert "keyhouse dev" in ended.out
    assert run("version") == Ended(0, f"{__version__}\n", "")


def test_colours_are_for_terminals_without_no_color(running: Server) -> None:
    words = ("status", f"127.0.0.1:{running.port}", *trust(running), "--memory", "none")

    code, shown = on_a_terminal(*words, environment={})
    assert (code, "\x1b[" in shown) == (0, True), shown
    code, shown = on_a_terminal(*words, environment={"NO_COLOR": "1"})
    assert (code, "\x1b[" in shown) == (0, False), shown
    assert "\x1b" not in run(*words, env={"TERM": "xterm-256color", "COLORTERM": "truecolor"}).out
