"""`keyhouse manifest ...` and `keyhouse secret ...` against a real coordinator."""

import base64
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from support.process.command import Ended, run
from support.process.server import Server, free_port
from support.process.start import KEYHOUSE, start
from support.samples.deployment import user
from support.samples.updates import raise_version, together

pytestmark = pytest.mark.acceptance


class Desk:
    """A folder with everybody's files, and commands typed in it."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder = folder
        self.server = server
        self.host = f"127.0.0.1:{server.port}"
        machine = server.data / "simulation"
        self.trust: tuple[str, ...] = (
            *("--attestation", str(machine / "attestation.json")),
            *("--simulation-root", str(machine / "root.pem")),
        )

    def type(self, *words: str, by: str = "", stdin: bytes = b"") -> Ended:
        """Type ``keyhouse`` with ``words``; ``HOST`` stands for the address, ``by`` is who types.

        Without ``HOST`` the command needs no coordinator.
        """
        if "HOST" not in words:
            return run(*words, folder=self.folder, stdin=stdin)
        typed = [self.host if word == "HOST" else word for word in words]
        asks = {"apply", "acknowledge"} & {*words} and not {"--expect-plan", "--no-plan"} & {*words}
        if asks:  # here is no terminal
            typed += ["--yes"]
        if by:
            typed += ["--cert", self.file(f"{by}.crt", user(by).pem)]
            typed += ["--key", self.file(f"{by}.key", user(by).key_pem)]
        return run(*typed, *self.trust, folder=self.folder, stdin=stdin)

    def type_at_terminal(self, *words: str, by: str, typed: str) -> Ended:
        """Type a command where standard input is a terminal, and ``typed`` into it."""
        keyboard, screen = os.openpty()
        with (
            os.fdopen(keyboard, "wb") as keys,
            os.fdopen(screen, "rb") as terminal,
            TemporaryFile() as output,
            TemporaryFile() as errors,
        ):
            keys.write(f"{typed}\n".encode())
            keys.flush()
            host = [self.host if word == "HOST" else word for word in words]
            cert = self.file(f"{by}.crt", user(by).pem)
            key = self.file(f"{by}.key", user(by).key_pem)
            process = start(
                [*host, "--cert", cert, "--key", key, "--memory", "none", *self.trust],
                stdin=terminal,
                output=output,
                errors=errors,
                environment={},
                folder=self.folder,
            )
            code = process.wait(60.0)
            output.seek(0)
            errors.seek(0)
            return Ended(code, output.read().decode(), errors.read().decode())

    def file(self, name: str, content: bytes) -> str:
        """Write a file; return its name."""
        (self.folder / name).write_bytes(content)
        return name

    def read(self, name: str) -> Any:
        """Return the JSON in a file that only its owner can read."""
        path = self.folder / name
        assert path.stat().st_mode & 0o777 == 0o600
        return json.loads(path.read_bytes())


def done(ended: Ended) -> str:
    """Return what a command printed that did what it should."""
    assert ended.code == 0, ended
    return ended.out


def one_object(ended: Ended) -> dict[str, Any]:
    """Return the one JSON object on standard output."""
    (line,) = done(ended).splitlines()
    decoded = json.loads(line)
    assert isinstance(decoded, dict)
    return decoded


def refused(ended: Ended, code: int = 1) -> str:
    """Return the message of a command that failed with ``code``."""
    assert (ended.code, ended.out) == (code, ""), ended
    first = ended.err.splitlines()[0]
    assert first.startswith("error: "), ended.err
    return first.removeprefix("error: ")


def fingerprint(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Desk]:
    """A coordinator that has no manifest yet."""
    (tmp_path / "desk").mkdir()
    with Server(tmp_path / "data") as server:
        yield Desk(tmp_path / "desk", server)


Deploy = Callable[[bytes], Desk]


@pytest.fixture
def deployed(waiting: Desk) -> Deploy:
    """Set a first manifest by hand."""

    def deploy(first: bytes) -> Desk:
        with waiting.server.client() as client:
            assert client.set_manifest(first).status == 200
        return waiting

    return deploy


# --- manifest set ---


def test_setting_a_manifest_keeps_the_recovery_secrets_in_a_private_file(waiting: Desk) -> None:
    raw = together(holders=["rk0", "rk1"])
    waiting.file("m.json", raw)
    ended = waiting.type("manifest", "set", "m.json", "HOST", "-r", "recovery.json")
    assert "the manifest is in force" in done(ended)
    assert fingerprint(raw) in ended.out
    assert "recovery.json" in ended.err
    assert set(waiting.read("recovery.json")["RecoverySecrets"]) == {"rk0", "rk1"}
    assert "in force" in done(waiting.type("manifest", "verify", "m.json", "HOST"))
    again = waiting.type("manifest", "set", "m.json", "HOST", "-r", "second.json")
    assert "manifest" in refused(again)
    assert not (waiting.folder / "second.json").exists()


def test_without_an_option_recovery_secrets_go_to_a_file_named_after_the_manifest(
    waiting: Desk,
) -> None:
    raw = together(holders=["rk0"])
    ended = waiting.type("manifest", "set", "-", "HOST", "--json", stdin=raw)
    name = f"recovery-secrets-{fingerprint(raw)[:12]}.json"
    assert one_object(ended) == {
        "fingerprint": fingerprint(raw),
        "recoveryKeys": ["rk0"],
        "recoveryFile": name,
    }
    assert name in ended.err
    assert set(waiting.read(name)["RecoverySecrets"]) == {"rk0"}


def test_recovery_secrets_alone_are_printed_where_that_is_asked_for(waiting: Desk) -> None:
    waiting.file("m.json", together(holders=["rk0"]))
    ended = waiting.type("manifest", "set", "m.json", "HOST", "-r", "-")
    assert set(one_object(ended)["RecoverySecrets"]) == {"rk0"}
    assert sorted(path.name for path in waiting.folder.iterdir()) == ["m.json"]


def test_without_recovery_keys_no_file_is_left(waiting: Desk) -> None:
    waiting.file("m.json", together())
    done(waiting.type("manifest", "set", "m.json", "HOST", "-r", "recovery.json"))
    assert sorted(path.name for path in waiting.folder.iterdir()) == ["m.json"]


def test_a_place_that_cannot_be_taken_is_refused_before_the_coordinator_is_asked(
    waiting: Desk,
) -> None:
    waiting.file("m.json", together(holders=["rk0"]))
    waiting.file("taken.json", b"precious")
    (waiting.folder / "taken-link.json").symlink_to("elsewhere.json")
    (waiting.folder / "folder").mkdir()
    for place in ("taken.json", "taken-link.json", "none/recovery.json", "folder"):
        message = refused(waiting.type("manifest", "set", "m.json", "HOST", "-r", place))
        assert place in message
    assert (waiting.folder / "taken.json").read_bytes() == b"precious"
    assert not (waiting.folder / "elsewhere.json").exists()
    with waiting.server.client() as client:
        assert client.get("/api/v2/status").data["code"] == 2


def test_recovery_secrets_that_no_file_can_hold_are_printed_instead(waiting: Desk) -> None:
    waiting.file("m.json", together(holders=["rk0"]))
    typed = [KEYHOUSE, "manifest", "set", "m.json", waiting.host, *waiting.trust, "-r", "r.json"]
    typed += ["--memory", "none"]
    ended = subprocess.run(
        ["bash", "-c", 'ulimit -f 0; exec "$@"', "bash", *typed],
        cwd=waiting.folder,
        env={"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 1, ended
    assert set(json.loads(ended.stdout)["RecoverySecrets"]) == {"rk0"}
    assert b"r.json: file too large" in ended.stderr
    assert b"on standard output instead" in ended.stderr
    assert not (waiting.folder / "r.json").exists()


# --- reading ---


def test_the_manifest_in_force_is_printed_byte_for_byte_and_verified(deployed: Deploy) -> None:
    raw = together()
    desk = deployed(raw)
    assert done(desk.type("manifest", "get", "HOST")).encode() == raw
    done(desk.type("manifest", "get", "HOST", "-o", "out.json"))
    assert (desk.folder / "out.json").read_bytes() == raw
    assert "already exists" in refused(desk.type("manifest", "get", "HOST", "-o", "out.json"))
    found = one_object(desk.type("manifest", "get", "HOST", "-s"))
    assert base64.b64decode(found["manifest"]) == raw
    assert found["manifestFingerprint"] == fingerprint(raw)
    assert done(desk.type("manifest", "signature", "out.json")) == fingerprint(raw) + "\n"
    for expected in ("out.json", fingerprint(raw), fingerprint(raw).upper()):
        found = one_object(desk.type("manifest", "verify", expected, "HOST", "--json"))
        assert found == {"verified": True, "fingerprint": fingerprint(raw)}
    for other in ("00" * 32, desk.file("other.json", raw + b" ")):
        message = refused(desk.type("manifest", "verify", other, "HOST"), 4)
        assert "another manifest is in force" in message


def test_raised_versions_are_shown_until_a_full_update_discards_them(deployed: Deploy) -> None:
    def shown() -> int:
        found = json.loads(done(desk.type("manifest", "get", "HOST", "-u")))
        version = found["Packages"]["app"]["SecurityVersion"]
        assert isinstance(version, int)
        return version

    desk = deployed(together(UpdateThreshold=1))
    assert shown() == 3
    desk.file("up.json", raise_version(9))
    ended = desk.type("manifest", "update", "apply", "up.json", "HOST", by="releaser")
    assert "the update is in force" in done(ended)
    assert shown() == 9
    desk.file("new.json", together(word="new"))
    ended = desk.type("manifest", "update", "apply", "new.json", "HOST", by="alice")
    assert "it lowers SecurityVersion of app from 9 to 3" in done(ended)
    assert shown() == 3


def test_unchanged_manifest_is_not_sent_again(deployed: Deploy) -> None:
    desk, apply = deployed(together(UpdateThreshold=1)), ("manifest", "update", "apply")
    desk.file("same.json", together(UpdateThreshold=1))
    desk.file("up.json", raise_version(9))
    before = done(desk.type("certificate", "intermediate", "HOST"))

    ended = desk.type(*apply, "same.json", "HOST", by="alice")
    assert "nothing to change; nothing was sent" in done(ended)
    assert ended.err.endswith("hint: --renew sends the manifest again, and renews certificates\n")
    assert one_object(desk.type(*apply, "same.json", "HOST", "--json", by="alice")) == {
        "applied": True,
        "sent": False,
        "fingerprint": fingerprint(together(UpdateThreshold=1)),
    }
    assert done(desk.type("certificate", "intermediate", "HOST")) == before
    assert len(done(desk.type("manifest", "log", "HOST")).splitlines()) == 1

    ended = desk.type(*apply, "same.json", "HOST", "--renew", by="alice")
    assert "the update is in force" in done(ended)
    assert done(desk.type("certificate", "intermediate", "HOST")) != before

    # The same bytes lower a raised version: this update has an effect.
    done(desk.type(*apply, "up.json", "HOST", by="releaser"))
    ended = desk.type(*apply, "same.json", "HOST", by="alice")
    assert "it lowers SecurityVersion of app from 9 to 3" in done(ended)


def test_the_log_is_printed_line_by_line(deployed: Deploy) -> None:
    desk = deployed(together())
    desk.file("up.json", raise_version(9))
    done(desk.type("manifest", "update", "apply", "up.json", "HOST", by="releaser"))
    lines = done(desk.type("manifest", "log", "HOST")).splitlines()
    assert [line.split("  ")[1:] for line in lines] == [
        ["Initial manifest set"],
        ["SecurityVersion increased", "user=releaser", "package=app", "new version=9"],
    ]
    entries = one_object(desk.type("manifest", "log", "HOST", "--json"))["updateLog"]
    assert entries[1]["new version"] == 9
    done(desk.type("manifest", "log", "HOST", "-o", "log.jsonl"))
    written = (desk.folder / "log.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in written] == entries


# --- updates ---


def test_three_people_update_with_the_commands_that_they_are_told(deployed: Deploy) -> None:
    desk, new = deployed(together(holders=["rk0"])), together(holders=["rk1"], word="new")
    desk.file("new.json", new)
    ended = desk.type("manifest", "update", "apply", "new.json", "HOST", by="alice")
    assert "the update waits" in done(ended)
    assert "1 more of: bob, carol" in ended.out
    assert not list(desk.folder.glob("recovery*"))
    plan, _, told = ended.err.partition("next: ")
    digest = plan.splitlines()[-1].removeprefix("plan: ")
    told, _, commands = told.partition("\n")
    assert told == "1 of bob, carol reads the same file and types, with files of their own:"
    assert str(desk.server.data) not in commands  # Alice's files

    missing = done(desk.type("manifest", "update", "get", "HOST", "--missing"))
    assert fingerprint(new) in missing
    assert "bob, carol" in missing
    assert done(desk.type("manifest", "update", "get", "HOST")).encode() == new
    found = one_object(desk.type("manifest", "update", "get", "HOST", "--json"))
    assert base64.b64decode(found["manifest"]) == new
    assert found["missingUsers"] == ["bob", "carol"]

    desk.file("YOUR.crt", user("bob").pem)
    desk.file("YOUR.key", user("bob").key_pem)
    machine = desk.server.data / "simulation"
    mine = {"YOUR-ATTESTATION.json": "attestation.json", "YOUR-MACHINE/root.pem": "root.pem"}
    for name, file in mine.items():
        commands = commands.replace(name, str(machine / file))
    review, agree = commands.replace("\\\n", " ").strip().splitlines()
    program, *words = review.split()
    assert program == "keyhouse"
    assert done(run(*words, folder=desk.folder)).endswith(f"plan: {digest}\n")
    _, *words = agree.replace("DIGEST-OF-YOUR-PLAN", digest).split()
    ended = run(*words, "--json", folder=desk.folder)
    found = one_object(ended)
    name = f"recovery-secrets-{fingerprint(new)[:12]}.json"
    assert found.pop("message").startswith("All ")
    assert found == {
        "applied": True,
        "sent": True,
        "fingerprint": fingerprint(new),
        "plan": digest,
        "missingAcknowledgments": 0,
        "missingUsers": [],
        "recoveryFile": name,
        "signed": True,
    }
    assert name in ended.err
    assert set(desk.read(name)["RecoverySecrets"]) == {"rk1"}
    assert done(desk.type("manifest", "get", "HOST")).encode() == new
    assert "no update is pending" in refused(desk.type("manifest", "update", "get", "HOST"))


def test_all_who_have_to_agree_are_told_how_many_more(deployed: Deploy) -> None:
    desk = deployed(together(UpdateThreshold=0))
    desk.file("new.json", together(word="new"))
    ended = desk.type("manifest", "update", "apply", "new.json", "HOST", "--json", by="carol")
    found = one_object(ended)
    assert (found["applied"], found["missingAcknowledgments"]) == (False, 2)
    assert found["missingUsers"] == ["alice", "bob"]
    assert (
        "next: 2 of alice, bob read the same file and type, with files of their own:" in ended.err
    )


def test_cancelling_ends_it_for_all(deployed: Deploy) -> None:
    desk = deployed(together())
    desk.file("new.json", together(word="new"))
    done(desk.type("manifest", "update", "apply", "new.json", "HOST", by="alice"))
    ended = desk.type("manifest", "update", "cancel", "HOST", "--json", by="bob")
    assert one_object(ended) == {"cancelled": True}
    message = refused(desk.type("manifest", "update", "cancel", "HOST", by="bob"))
    assert "no update is pending" in message
    words = ("manifest", "update", "acknowledge", "new.json", "HOST")
    assert "no update is pending" in refused(desk.type(*words, by="bob"))


def test_recovery_secrets_of_an_update_alone_are_printed_where_that_is_asked_for(
    deployed: Deploy,
) -> None:
    desk = deployed(together(holders=["rk0"], UpdateThreshold=1))
    desk.file("new.json", together(holders=["rk1"]))
    words = ("manifest", "update", "apply", "new.json", "HOST", "-r", "-", "--json")
    assert set(one_object(desk.type(*words, by="alice"))["RecoverySecrets"]) == {"rk1"}


def test_refusals_end_with_1_and_leave_no_file(deployed: Deploy) -> None:
    desk = deployed(together(holders=["rk0"]))
    desk.file("new.json", together(holders=["rk1"]))
    words = ("manifest", "update", "apply", "new.json", "HOST", "-r", "r.json")
    assert "UpdateManifest" in refused(desk.type(*words, by="writer"))
    assert "certificate" in refused(desk.type(*words, by="stranger"))
    desk.file("bad.json", b"{")
    bad = desk.type("manifest", "update", "apply", "bad.json", "HOST", "-r", "r.json", by="bob")
    refused(bad)
    assert not (desk.folder / "r.json").exists()


def test_one_who_is_not_trusted_or_not_there_is_sent_nothing(deployed: Deploy) -> None:
    desk = deployed(together())
    desk.file("new.json", together(word="new"))
    real = json.loads((desk.server.data / "simulation/attestation.json").read_text())
    desk.file("wrong.json", json.dumps(real | {"UniqueID": "00" * 32}).encode())
    words = ("manifest", "update", "apply", "new.json", "HOST", "--attestation", "wrong.json")
    desk.trust = desk.trust[2:]
    assert "not trusted" in refused(desk.type(*words, by="alice"), 4)
    with desk.server.client() as client:
        assert client.get("/api/v2/update-manifest").status == 404
    desk.host = f"127.0.0.1:{free_port()}"
    assert "connection refused" in refused(desk.type(*words, by="alice"), 3)
    assert not list(desk.folder.glob("recovery*"))


# --- plans ---


APPLY = ("manifest", "update", "apply", "new.json", "HOST")
ACKNOWLEDGE = ("manifest", "update", "acknowledge", "new.json", "HOST")


def _planned(desk: Desk, by: str = "alice") -> str:
    """Return the digest of the plan that is printed now."""
    last = done(desk.type("manifest", "plan", "new.json", "HOST", by=by)).splitlines()[-1]
    return last.removeprefix("plan: ")


def test_a_plan_is_printed_for_people_and_for_programs_and_changes_nothing(
    deployed: Deploy,
) -> None:
    desk = deployed(together(holders=["rk0"]))
    desk.file("new.json", together(lambda document: document["Users"].pop("carol"), word="new"))
    printed = done(desk.type("manifest", "plan", "new.json", "HOST", by="bob"))
    for line in (
        'user "carol" is removed',
        'marble "app": its arguments differ',
        "a lost state cannot be recovered",
        "unchanged secrets: 2",
        "of these, not uploaded yet: note",
        "agreement: 2 of alice, bob, carol",
    ):
        assert line in printed
    found = one_object(desk.type("manifest", "plan", "new.json", "HOST", "--json", by="bob"))
    assert printed.splitlines()[-1] == f"plan: {found['digest']}"
    assert {each["what"] for each in found["plan"]["changes"]} >= {"user-removed", "right-lost"}
    assert "UpdateManifest" in refused(
        desk.type("manifest", "plan", "new.json", "HOST", by="writer")
    )
    assert "no update is pending" in refused(desk.type("manifest", "update", "get", "HOST"))


def test_what_was_reviewed_is_what_is_agreed_to_or_nothing(deployed: Deploy) -> None:
    def change(document: dict[str, Any]) -> None:
        del document["Secrets"]["note"]
        document["Roles"]["write"]["ResourceNames"] = []

    desk = deployed(together())
    desk.file("new.json", together(change))
    digest = _planned(desk)
    message = desk.type(*APPLY, "--expect-plan", "00" * 32, by="alice")
    assert (message.code, message.out) == (1, "")
    assert f"error: the plan has changed since the review: its digest is now {digest}" in (
        message.err.splitlines()
    )
    ended = desk.type(*APPLY, "--expect-plan", digest.upper(), "--json", by="alice")
    assert one_object(ended)["plan"] == digest
    assert "plan: " not in ended.err  # programs read what they asked for, and nothing else
    desk.file("s.json", json.dumps({"note": {"key": "aGVsbG8="}}).encode())
    done(desk.type("secret", "set", "s.json", "HOST", by="writer"))
    late = desk.type(*ACKNOWLEDGE, "--expect-plan", digest, by="bob")
    assert (late.code, late.out) == (1, "")
    assert _planned(desk, "bob") in late.err
    assert 'the value of secret "note" is lost' in late.err
    other = desk.file("other.json", together(word="other"))
    words = ("manifest", "update", "acknowledge", other, "HOST")
    assert "differs from the pending manifest" in refused(desk.type(*words, by="bob"))
    ended = desk.type(*ACKNOWLEDGE, "--no-plan", "--json", by="bob")
    assert (one_object(ended)["applied"], one_object(ended)["plan"]) == (True, None)
    assert "plan: " not in ended.err


@pytest.mark.parametrize(("options", "typed"), [((), "n"), ((), "y"), (("--yes",), "")])
def test_on_a_terminal_one_is_asked_before_anything_is_sent(
    deployed: Deploy, options: tuple[str, ...], typed: str
) -> None:
    desk = deployed(together())
    desk.file("new.json", together(word="new"))
    ended = desk.type_at_terminal(*APPLY, *options, by="alice", typed=typed)
    assert ("Apply these changes? [y/N]" in ended.err) is (not options)
    assert "its arguments differ" in ended.err
    with desk.server.client() as client:
        pending = client.get("/api/v2/update-manifest").status
    if typed == "n":
        assert (ended.code, pending) == (1, 404)
        assert "error: the update is not confirmed: nothing was sent\n" in ended.err
    else:
        assert (ended.code, pending) == (0, 200)


@pytest.mark.parametrize(
    "words",
    [
        ("manifest", "update"),
        ("manifest", "update", "apply", "f", "h", "--attestation", "a", "--expect-plan", "7"),
        (
            *("manifest", "update", "acknowledge", "f", "h", "--attestation", "a"),
            *("--no-plan", "--expect-plan", "00" * 32),
        ),
        ("manifest", "update", "apply", "f", "h", "--attestation", "a"),
        ("manifest", "update", "cancel", "h", "--attestation", "a", "--cert", "c"),
        ("secret", "get", "h", "--attestation", "a", "--cert", "c", "--key", "k"),
        ("manifest", "set", "f", "h"),
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2(words: tuple[str, ...]) -> None:
    assert run(*words).code == 2


# --- secrets ---


def _with_certificate(document: dict[str, Any]) -> None:
    document["Secrets"]["web"] = {"Type": "cert-ecdsa", "Size": 256, "UserDefined": True}
    document["Roles"]["write"]["ResourceNames"].append("web")


def test_secrets_are_uploaded_and_read_by_those_who_may(deployed: Deploy) -> None:
    desk = deployed(together(_with_certificate))
    value = base64.b64encode(b"hello\x00\xff").decode()
    desk.file("secrets.json", json.dumps({"note": {"Key": value}}).encode())
    ended = desk.type("secret", "set", "secrets.json", "HOST", by="writer")
    assert done(ended).split() == ["stored", "note"]
    assert value in done(desk.type("secret", "get", "note", "HOST", by="writer"))
    pem = user("web").key_pem + user("web").pem
    ended = desk.type(
        "secret", "set", "-", "HOST", "--from-pem", "web", "--json", by="writer", stdin=pem
    )
    assert one_object(ended) == {"stored": ["web"]}
    words = ("secret", "get", "note", "web", "HOST")
    found = one_object(desk.type(*words, "--json", by="writer"))["secrets"]
    assert list(found) == ["note", "web"]
    assert found["note"]["private"] == value
    certificate = x509.load_der_x509_certificate(base64.b64decode(found["web"]["cert"]))
    assert certificate.public_bytes(Encoding.PEM) == user("web").pem
    assert desk.type(*words, "-o", "out.json", by="writer") == Ended(0, "", "")
    assert desk.read("out.json")["secrets"] == found
    assert "already exists" in refused(desk.type(*words, "-o", "out.json", by="writer"))
    assert "alice" in refused(desk.type(*words, by="alice"))


def test_one_secret_is_set_and_read_as_its_bytes(deployed: Deploy) -> None:
    desk = deployed(together(_with_certificate))
    value = b"hello\x00\xff\n"
    desk.file("note.bin", value)
    words = ("secret", "set", "note", "HOST", "--from-file", "note.bin")
    assert done(desk.type(*words, by="writer")).split() == ["stored", "note"]
    assert desk.type("secret", "get", "note", "HOST", "--raw", "-o", "got", by="writer").code == 0
    assert (desk.folder / "got").read_bytes() == value
    words = ("secret", "set", "note", "HOST", "--value", "-")
    done(desk.type(*words, by="writer", stdin=b"pass word"))
    assert done(desk.type("secret", "get", "note", "HOST", "--raw", by="writer")) == "pass word"
    printed = done(desk.type("secret", "get", "note", "HOST", by="writer"))
    assert [line.split(maxsplit=1) for line in printed.splitlines()] == [
        ["name", "note"],
        ["type", "plain"],
        ["userDefined", "yes"],
        ["value", "pass word"],
    ]
    pem = user("web").key_pem + user("web").pem
    words = ("secret", "set", "web", "HOST", "--value", "-")
    assert "has 0 certificates" in refused(desk.type(*words, by="writer", stdin=b"no PEM"))
    done(desk.type(*words, by="writer", stdin=pem))
    shown = done(desk.type("secret", "get", "web", "HOST", "--raw", by="writer"))
    assert shown.startswith(user("web").pem.decode())
    assert "-----BEGIN PRIVATE KEY-----" in shown


def test_a_secret_that_cannot_be_set_is_refused_before_it_is_sent(deployed: Deploy) -> None:
    desk = deployed(together())
    value = ("HOST", "--value", "-")
    wrong = desk.type("secret", "set", "nite", *value, by="writer", stdin=b"x")
    assert "did you mean note?" in wrong.err
    generated = refused(desk.type("secret", "set", "shared", *value, by="writer", stdin=b"x"))
    assert "the coordinator generates" in generated
    argv = refused(desk.type("secret", "set", "note", "HOST", "--value", "x", by="writer"), 2)
    assert "other users of the machine see" in argv
    both = desk.type("secret", "set", "note", *value, "--from-file", "f", by="writer")
    assert "two options name the value" in refused(both, 2)
    several = desk.type("secret", "get", "note", "shared", "HOST", "--raw", by="writer")
    assert "--raw prints a single secret" in refused(several, 2)
    unset = refused(desk.type("secret", "get", "note", "HOST", "--raw", by="writer"))
    assert "has no value yet" in unset


def test_secrets_are_listed_with_those_who_may(deployed: Deploy) -> None:
    desk = deployed(together())
    shown = done(desk.type("secret", "list", "HOST")).splitlines()
    assert [re.split("  +", line) for line in shown[:2]] == [
        ["name", "type", "value", "readers", "writers"],
        ["note", "plain", "by users, no upload yet", "writer", "writer"],
    ]
    found = one_object(desk.type("secret", "list", "HOST", "--json"))["secrets"]
    assert [each["name"] for each in found] == ["note", "shared"]


def test_a_file_of_secrets_with_anything_wrong_is_not_sent(deployed: Deploy) -> None:
    desk = deployed(together())
    content = b'{"note": {"key": "aGVsbG8="}, "other": {"kye": "CANARY"}}'
    ended = desk.type("secret", "set", "-", "HOST", by="writer", stdin=content)
    assert (ended.code, ended.out) == (1, "")
    assert "kye" in ended.err
    assert "CANARY" not in ended.err
    with desk.server.client(user("writer")) as client:
        assert client.secrets(["note"]) == {"note": None}
