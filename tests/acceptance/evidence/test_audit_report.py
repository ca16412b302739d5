"""The page for auditors about a real history, as a browser shows it and as paper has it."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from support.cosigner import Cosigner
from support.peers.console import chromium
from support.peers.sdk import trust_in_server
from support.peers.witness import Witness, policy
from support.process.command import Ended, run
from support.process.server import Server
from support.samples.deployment import user
from support.samples.updates import Api, Document, raise_version, together
from support.witnessed import until_served

from keyhouse.base.secret import Secret
from keyhouse.client import Coordinator, PemIdentity

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.acceptance

SIZES = ((360, 740), (820, 1180), (1440, 900))


class Audited(NamedTuple):
    """An evidence file, and the files of an auditor, in one folder."""

    folder: Path
    root: str

    def verify(self, *words: str) -> Ended:
        return run(
            *("evidence", "verify", "a.evidence.json", "--attestation", "attestation.json"),
            *("--simulation-root", "root.pem", "--policy", "witnesses.policy"),
            *("--root-fingerprint", self.root, *words),
            folder=self.folder,
        )


def change(document: Document) -> None:
    """Take a right away, give another one, demand more users, and lower a version."""
    document["Roles"]["write"]["Actions"] = ["ReadSecret"]
    document["Users"]["carol"]["Roles"] = ["admin", "release"]
    document["Packages"]["app"]["SecurityVersion"] = 2


def with_witnesses(rules: str, word: str = "") -> bytes:
    """Return the manifest after ``change``. Another ``word`` makes another manifest."""
    return together(change, word=word, UpdateThreshold=3, Transparency={"Witnesses": rules})


@pytest.fixture(scope="module", name="audited")
def _audited(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    folder = tmp_path_factory.mktemp("audited")
    server, auditor, api = Server(folder / "data"), folder / "auditor", Api(2)
    auditor.mkdir()
    with ExitStack() as stack:
        cosigners = [Cosigner.ed25519(f"{name}.example/w") for name in "ac"]
        cosigners.append(Cosigner.mldsa44("b.example/w"))
        witnesses = [stack.enter_context(Witness(each)) for each in cosigners]
        rules = policy(witnesses, 2)
        (auditor / "witnesses.policy").write_text(rules)
        stack.enter_context(server)
        with server.client() as client:
            first = together(Transparency={"Witnesses": rules})
            assert client.set_manifest(first).status == 200
            key = client.get("/api/v2/log/key").data["verifierKey"]
            pem = client.get("/api/v2/quote").data["cert"].encode()
        for witness in witnesses:
            witness.trust(key)
        until_served(server)
        with server.client(user("writer")) as client:
            assert client.upload({"note": b"a value"}).status == 200
        with server.client(user("releaser")) as client:  # not signed
            assert api.update(client, raise_version(9)).status == 200
        second, third = with_witnesses(rules), with_witnesses(rules, "third")
        signed(server, "alice", Coordinator.update, second)
        signed(server, "bob", Coordinator.acknowledge, second)
        signed(server, "alice", Coordinator.update, third)
        signed(server, "alice", lambda session, _: session.cancel(), third)
        simulation = server.data / "simulation"
        for name in ("attestation.json", "root.pem", "collateral.json"):
            shutil.copy(simulation / name, auditor)
        trust = ("--attestation", "attestation.json", "--simulation-root", "root.pem")
        address = f"127.0.0.1:{server.port}"
        done = run("evidence", "export", address, "-o", "a.evidence.json", *trust, folder=auditor)
        assert done.code == 0, done.err
    root = x509.load_pem_x509_certificates(pem)[-1].public_bytes(Encoding.DER)
    return Audited(auditor, hashlib.sha256(root).hexdigest())


def signed(
    server: Server, name: str, decide: Callable[[Coordinator, bytes], object], raw: bytes
) -> None:
    """Have ``name`` decide about ``raw`` with the SDK, which signs."""
    signer = PemIdentity(user(name).pem, Secret(user(name).key_pem))
    where = f"127.0.0.1:{server.port}"
    with Coordinator.connect(where, trust_in_server(server), signer) as session:
        decide(session, raw)


@pytest.fixture(scope="module", name="browser")
def _browser() -> "Iterator[Browser]":
    with chromium() as found:
        yield found


def opened(browser: "Browser", file: Path, **settings: object) -> "Page":
    page = browser.new_context(**settings).new_page()  # type: ignore[arg-type]
    page.goto(file.as_uri())
    return page


def test_a_file_with_gaps_is_red_until_the_auditor_allows_each(audited: Audited) -> None:
    refused = audited.verify("--html", "red.html")
    allowed = audited.verify("--allow", "not-signed", "--html", "amber.html")

    assert (refused.code, allowed.code) == (4, 0), (refused.err, allowed.err)
    red, amber = ((audited.folder / name).read_text() for name in ("red.html", "amber.html"))
    assert 'class="light red"' in red
    assert 'class="light amber"' in amber
    assert 'class="light green"' not in red + amber


def test_the_page_names_the_files_and_the_keys_of_the_auditor(audited: Audited) -> None:
    assert audited.verify("--allow", "not-signed", "--html", "named.html").code == 0
    page = (audited.folder / "named.html").read_text()
    for name in ("a.evidence.json", "attestation.json", "witnesses.policy"):
        assert hashlib.sha256((audited.folder / name).read_bytes()).hexdigest() in page, name
    assert audited.root in page
    shown = json.loads(audited.verify("--allow", "not-signed", "--json").out)
    raw = (audited.folder / "a.evidence.json").read_bytes()
    assert shown["file"] == {"name": "a.evidence.json", "sha256": hashlib.sha256(raw).hexdigest()}
    keys = re.findall(r"[ac]\.example/w\+\S+", (audited.folder / "witnesses.policy").read_text())
    assert len(keys) == 2
    assert all(key in page for key in keys)


def test_a_browser_shows_changes_in_words_and_each_gap_beside_its_entry(
    audited: Audited, browser: "Browser"
) -> None:
    assert audited.verify("--allow", "not-signed", "--html", "words.html").code == 0

    page = opened(browser, audited.folder / "words.html")

    first = page.locator("tr", has_text="first manifest").inner_text()
    assert "Updates: 2 of 3 users have to agree to a change: alice, bob, carol" in first
    update = page.locator("tr", has_text="in force, agreed to by").inner_text()
    for sentence in (
        'user "writer" loses WriteSecret on "note"',
        'user "carol" gains UpdateSecurityVersion on "app"',
        'package "app": SecurityVersion from 9 to 2, which is lower',
        "UpdateThreshold from 2 to 3",
    ):
        assert sentence in update
    raised = page.locator("tr", has_text="releaser raised app to 9").inner_text()
    assert "the user did not sign this" in raised
    cancelled = page.locator("tr", has_text="alice proposed").last.inner_text()
    assert "arguments differ" in cancelled
    uploaded = page.locator("tr", has_text="writer uploaded").inner_text()
    assert "claim: the coordinator claims" in uploaded
    assert "3 of 3 users have to agree to a change: alice, bob, carol" in page.inner_text("body")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_no_screen_is_too_narrow(
    audited: Audited, browser: "Browser", size: tuple[int, int], scheme: str
) -> None:
    name = f"{scheme}-{size[0]}.html"
    assert audited.verify("--allow", "not-signed", "--html", name).code == 0
    viewport = {"width": size[0], "height": size[1]}

    page = opened(browser, audited.folder / name, viewport=viewport, color_scheme=scheme)

    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert page.locator(".light").is_visible()


def test_the_page_prints(audited: Audited, browser: "Browser") -> None:
    assert audited.verify("--allow", "not-signed", "--html", "paper.html").code == 0

    paper = opened(browser, audited.folder / "paper.html").pdf(format="A4")

    assert paper.startswith(b"%PDF-")
