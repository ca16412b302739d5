"""Pages of the console in a real browser, each flow with a real coordinator."""

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from axe_playwright_python.sync_playwright import Axe
from support.cosigner import Cosigner
from support.peers.console import Console, console, context_of, with_profile
from support.peers.joined import asked_to_join
from support.peers.witness import Witness, policy
from support.process.server import Client, Server
from support.samples.deployment import user
from support.samples.recovery import Holder, hand_in, holder, recoverable
from support.samples.updates import together
from support.witnessed import until_served

from keyhouse.evidence.bundle import read_evidence
from keyhouse.evidence.verify import examine
from keyhouse.manifest import fingerprint

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.acceptance

PAGES = {
    "trust": "Trust",
    "manifest?section=Marbles": "Manifest",
    "manifest/picture": "Manifest",
    "manifest/source?as=yaml": "Manifest",
    "manifest/compare": "Manifest",
    "updates?from=force": "Updates",
    "secrets": "Secrets",
    "workloads": "Workloads",
    "workloads?show=refused": "Workloads",
    "history": "History",
    "recovery": "Recovery",
    "keys": "Who can know the keys",
}
WIDTHS = (360, 3840)

# Pages hear of it in a task of its own, and in the order in which they asked.
CLOSE = """new Promise((closed) => {
    const revealed = document.getElementById("revealed");
    revealed.addEventListener("close", closed);
    revealed.close();
})"""


def to(page: "Page", path: str) -> None:
    base = page.url.split("/d/")[0]
    answer = page.goto(f"{base}/d/prod/{path}")
    assert answer is not None
    assert answer.status == 200, page.inner_text("main")


def violations(page: "Page", **rules: object) -> list[str]:
    """Return what axe, which the page has, finds; what passes is not looked at more closely."""
    options = {"resultTypes": ["violations"], **rules}
    found = page.evaluate("(options) => axe.run(options)", options)
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found["violations"]]


def propose(page: "Page", raw: bytes) -> None:
    to(page, "updates")
    page.fill("#manifest-text", raw.decode())
    page.click("text=Show the plan")
    page.click("text=Propose this plan")
    page.wait_for_selector("text=The update is proposed")


def test_every_page_is_open_to_keyboards_and_screen_readers_and_fits_its_window(
    deployment: Server, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    """Each page is loaded once, and axe with it: that is what takes long."""
    assert asked_to_join(deployment, "missing").answer is None
    # Without transitions: in the midst of one, from theme to theme, colors are those of neither.
    settings = {"color_scheme": "light", "reduced_motion": "reduce"}
    page = opened(consoles(deployment, "alice"), **settings)
    page.add_init_script(Axe().axe_script)  # which is sent to the browser once
    found: dict[str, list[str]] = {}
    too_wide = []

    for path, title in PAGES.items():
        to(page, path)
        assert page.inner_text("h1") == title
        assert f"{title} · prod · Keyhouse" == page.title()
        found[path] = violations(page)
        page.emulate_media(color_scheme="dark")
        found[path] += violations(page, runOnly=["color-contrast"])
        page.emulate_media(color_scheme="light")
        usual = page.viewport_size
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 640})
            if page.evaluate("document.documentElement.scrollWidth") > width:
                too_wide.append((path, width))
        assert usual is not None
        page.set_viewport_size(usual)

    assert {path: told for path, told in found.items() if told} == {}
    assert too_wide == []


def test_each_manifest_says_who_can_know_the_keys(
    tmp_path: Path, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    with Server(tmp_path / "data") as server, server.client(user("alice")) as alice:
        first, second = (
            together(updaters=["alice"], holders=each, UpdateThreshold=1) for each in ("a", "ab")
        )
        assert alice.set_manifest(first).status == 200
        page = opened(consoles(server, "alice"))
        body = {"manifest": base64.b64encode(second).decode()}
        assert alice.post("/api/v2/update", body).status == 200
        to(page, "keys")
        checks = dict(zip(page.locator("tbody th").all_inner_texts(), _dones(page), strict=True))
        cards = page.locator("section.card").all_inner_texts()
    assert checks["line"] == checks["first-manifest"] == "done"
    assert checks["witnesses"] == "not done"
    _, now, began = cards
    assert "In force now" in now
    assert "2 of 2: a, b" in now
    assert "adds the holder b" in now
    assert "began the deployment" in began
    assert "1 of 1: a" in began


def _dones(page: "Page") -> list[str]:
    return page.locator("tbody .pill").all_inner_texts()


def test_two_people_approve_an_update_in_two_browsers(
    tmp_path: Path, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(together()).status == 200
        alice = opened(consoles(server, "alice"))
        bob = opened(consoles(server, "bob"))

        to(alice, "updates")
        alice.fill("#manifest-text", together(word="another").decode())
        alice.click("text=Show the plan")
        digest = alice.get_attribute(".decide-now .copy", "data-copy")
        assert "1 to change" in alice.inner_text("main")
        alice.click("text=Propose this plan")
        alice.wait_for_selector("text=You have agreed to this update.")

        to(bob, "updates")
        assert bob.inner_text(".people .agreed").startswith("alice")
        assert "agreed, signed" in bob.inner_text(".people .agreed")
        bob.click("text=Approve…")
        assert bob.get_attribute(".confirm[open] .copy", "data-copy") == digest
        bob.click("text=Approve this plan")
        bob.wait_for_selector("text=The update is in force")

        to(alice, "manifest/source")
        assert '"another"' in alice.inner_text("pre.source")
        to(alice, "history")
        assert "Manifest updated" in alice.inner_text("main")
        assert "Coordinator started" in alice.inner_text(".timeline .code")
        assert "agreements missing 1" in " ".join(alice.inner_text(".timeline").split())
        to(alice, "history?kind=people")
        assert alice.locator(".timeline li").count() == alice.get_by_text(" by ").count() >= 2
        to(alice, "manifest/compare")
        alice.check("input[name=left][value=earlier]")
        alice.check("input[name=right][value='in force']")
        alice.click("button:text('Compare')")
        alice.wait_for_selector("text=Side by side")
        old, new = (each.get_attribute("title") for each in alice.locator(".facts .hash").all())
        assert (old, new) == (fingerprint(together()), fingerprint(together(word="another")))
        assert "1 to change" in alice.inner_text("main")
        to(alice, "history")
        with alice.expect_download() as download:
            alice.click("text=Evidence file")
        content = download.value.path().read_bytes()
        assert len(examine(read_evidence(content), None).entries) > 3


def test_an_update_is_cancelled_and_a_plan_that_changed_is_not_agreed_to(
    tmp_path: Path, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(together()).status == 200
        alice, bob = opened(consoles(server, "alice")), opened(consoles(server, "bob"))
        propose(alice, together(word="first"))
        to(alice, "updates")
        to(bob, "updates")
        bob.click("text=Approve…")
        alice.click("text=Cancel…")
        alice.click("text=Cancel the update")
        alice.wait_for_selector("text=The update is cancelled")
        propose(alice, together(word="second"))

        bob.click("text=Approve this plan")

        assert "is not pending any more" in bob.inner_text("[role=alert]")
        with server.client() as client:
            assert b"second" not in client.get("/api/v2/manifest").body


def test_problems_of_a_manifest_are_told_with_their_lines(
    deployment: Server, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    page = opened(consoles(deployment, "alice"))

    for text, told in (
        ("Packages:\n  app:\n   - x: [", "Line 3"),
        ('{"Packages": {', "Line 1"),
        ("Marbles:\n  web:\n    Package: missing\n", "missing"),
    ):
        to(page, "updates")
        page.fill("#manifest-text", text)
        page.route("**/*", lambda route: route.continue_())
        page.evaluate("document.querySelector('form.editor').submit()")
        page.wait_for_selector(".beside-text [role=alert]")
        assert told in page.inner_text(".beside-text [role=alert]")


def test_a_secret_is_uploaded_and_read_and_stays_nowhere(
    deployment: Server, consoles: Callable[..., Console], browser: "Browser", tmp_path: Path
) -> None:
    """The browser has its profile on the disk: history, cache, storage, what was in forms."""
    value, profile = "canary-5b1f-of-a-secret", tmp_path / "profile"
    found = consoles(deployment, "writer")
    with with_profile(browser, profile) as page:
        page.goto(found.link)
        page.wait_for_url("**/trust")
        page.clock.install()
        page.click("#theme")  # which is stored
        to(page, "secrets")
        assert page.locator("button.reveal").count() == 1  # note, not shared
        page.click("button.upload")
        page.fill("#upload-form textarea", value)
        with page.expect_navigation():
            page.click("#upload-form button.primary")
        page.click("button.reveal")
        page.wait_for_selector("#revealed[open]")
        assert page.inner_text("#revealed pre") == value
        page.clock.run_for(31_000)
        assert not page.is_visible("#revealed")
        assert value not in page.content()

    kept = [file.read_bytes() for file in profile.rglob("*") if file.is_file()]
    assert any(b"keyhouse-theme" in content for content in kept)
    assert any(b"/d/prod/secrets" in content for content in kept)
    kept += [file.read_bytes() for file in found.home.rglob("*") if file.is_file()]
    for written in (value.encode(), value.encode("utf-16-le"), base64.b64encode(value.encode())):
        assert not any(written in content for content in kept)


def test_a_secret_is_gone_when_the_page_is_left_or_the_console_locked(
    deployment: Server, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    with deployment.client(user("writer")) as writer:
        assert writer.upload({"note": b"canary 77ac"}).status == 200
    page = opened(consoles(deployment, "writer", "--idle", "60"))
    page.clock.install()
    to(page, "secrets")
    page.click("button.reveal")
    page.wait_for_selector("#revealed[open]")

    page.evaluate(CLOSE)
    assert "canary 77ac" not in page.content()
    page.click("button.reveal")
    page.wait_for_selector("#revealed[open]")
    to(page, "history")
    page.go_back()
    assert page.inner_text("h1") == "Secrets"
    assert "canary 77ac" not in page.content()
    page.click("button.reveal")
    page.wait_for_selector("#revealed[open]")
    page.clock.run_for(61_000)

    assert page.is_visible("#locked")
    assert "canary 77ac" not in page.content()


def test_a_rollback_turns_trust_red(
    tmp_path: Path, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    server = Server(tmp_path / "data")
    with server, server.client() as client:
        assert client.set_manifest(together()).status == 200
    shutil.copytree(tmp_path / "data", tmp_path / "older")
    with server:
        with server.client(user("writer")) as writer:
            for word in (b"one", b"two", b"three"):
                assert writer.upload({"note": word}).status == 200
        page = opened(consoles(server, "alice"))
        assert "A simulated quote verifies" in page.inner_text("main")
    shutil.rmtree(tmp_path / "data")
    shutil.move(tmp_path / "older", tmp_path / "data")

    with server:
        page.goto(page.url.replace("/trust", "/history"))
        assert "Not trusted" in page.inner_text(".distrust h2")
        assert "rollback" in page.inner_text(".distrust")
        page.click(".top .pill.red")
        assert "rollback" in page.inner_text(".distrust")
        page.click("text=Verify again")
        assert "rollback" in page.inner_text(".distrust")


def test_witnesses_of_the_log_are_shown_and_demanded(
    tmp_path: Path, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    cosigner = Cosigner.ed25519("a.example/w")
    server, file = Server(tmp_path / "data"), tmp_path / "witnesses"
    with Witness(cosigner) as witness, server:
        file.write_text(policy([witness], 1))
        with server.client() as client:
            transparency = {"Witnesses": policy([witness], 1), "Serve": "Witnessed"}
            assert client.set_manifest(together(Transparency=transparency)).status == 200
            page = opened(consoles(server, "alice", witness_policy=str(file)))
            assert "Not trusted" in page.inner_text(".distrust h2")
            witness.trust(client.get("/api/v2/log/key").data["verifierKey"])
        until_served(server)
        page.click("text=Verify again")
        log = page.locator("section", has=page.get_by_text("Transparency log", exact=True))
        assert "a quorum saw the log" in log.inner_text()
        assert log.locator(".people .agreed").inner_text().split("\n")[0] == "W0"
        shown = log.inner_text()
        assert "W0 has cosigned" in shown
        assert "Last cosignature\nW0, 20" in shown
        assert "operations left, then held" in shown
        to(page, "history?kind=witnesses")
        assert "Transparency log begun" in page.inner_text(".timeline")


def test_names_of_a_manifest_are_text_and_nothing_else(
    tmp_path: Path, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    name = "<script>document.title='owned'</script>\"'><img src=x onerror=alert(1)>"

    def injected(content: dict[str, dict[str, object]]) -> None:
        content["Marbles"][name] = {"Package": name, "Parameters": {"Argv": [name]}}
        content["Packages"][name] = {"UniqueID": "ab" * 32}
        content["Secrets"][name] = {"Type": "plain", "UserDefined": True}
        content["Roles"][name] = {
            "ResourceType": "Secrets",
            "ResourceNames": [name],
            "Actions": ["ReadSecret", "WriteSecret"],
        }
        writer = content["Users"]["alice"]
        assert isinstance(writer, dict)
        writer["Roles"] = [*writer["Roles"], name]

    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(together(injected)).status == 200
        with server.client(user("alice")) as alice:
            assert alice.upload({name: b"<b>bold</b>"}).status == 200
        page = opened(consoles(server, "alice"))
        shown = 0
        for path in (
            "manifest?section=Packages",
            "manifest/picture",
            "manifest/source",
            "secrets",
            "history",
        ):
            to(page, path)
            assert page.title().endswith("· prod · Keyhouse")
            assert page.locator("main img, main script").count() == 0
            shown += name[:15] in page.inner_text("main")
        assert shown == 5
        to(page, "secrets?q=script")
        page.click("button.reveal")
        page.wait_for_selector("#revealed[open]")
        assert page.inner_text("#revealed pre") == "<b>bold</b>"


def test_large_deployment_is_shown_in_pages_and_searched(
    tmp_path: Path, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    def large(content: dict[str, dict[str, object]]) -> None:
        for number in range(1_000):
            content["Marbles"][f"marble{number:04}"] = {"Package": "app"}
        for number in range(10_000):
            content["Secrets"][f"secret{number:05}"] = {"Type": "plain", "UserDefined": True}

    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(together(large)).status == 200
        page = opened(consoles(server, "alice"))
        to(page, "secrets")
        assert page.locator("tbody tr").count() == 100
        assert "of 10,002" in page.inner_text(".turning")
        with page.expect_navigation():
            page.click("text=Next")
        assert page.locator("tbody tr").count() == 100
        page.fill("input[type=search]", "secret09999")
        with page.expect_navigation():
            page.click("text=Search")
        assert page.locator("tbody tr").count() == 1
        to(page, "manifest?section=Marbles")
        assert "1,001" in page.inner_text(".list")
        to(page, "manifest/picture")
        assert "9,978 more Secrets" in page.inner_text("main")
        to(page, "manifest/source")
        assert page.locator("pre.source .block").count() > 100
        # What is copied, and searched, has what was not painted: nothing more, nothing less.
        page.evaluate("getSelection().selectAllChildren(document.querySelector('pre.source'))")
        copied = page.evaluate("getSelection().toString()")
        assert copied.rstrip() == msgspec.json.format(together(large), indent=2).decode()
        assert page.evaluate("getSelection().empty() || window.find('secret09999')")


def test_recovery_shows_who_has_submitted(
    tmp_path: Path, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    keys = [holder("rk0"), holder("rk1")]
    server = Server(tmp_path / "data")
    with server, server.client() as client:
        shares = json.loads(client.set_manifest(recoverable(keys)).body)["data"]["RecoverySecrets"]
        page = opened(consoles(server, "admin"))
        to(page, "recovery")
        assert "2 of 2 holders are needed" in page.inner_text("main")
        with page.expect_download() as waiting:
            page.click("text=Download the encrypted shares")
        kept = json.loads(Path(waiting.value.path()).read_text())
        assert kept == {"RecoverySecrets": shares}
    (tmp_path / "data" / "sealed_key").unlink()

    with server, server.client() as client:
        to(page, "recovery")
        assert "0 of 2 shares are in" in page.inner_text("main")
        assert hand_in_share(client, keys[0], shares) == 1
        page.reload()
        assert "1 of 2 shares are in" in page.inner_text("main")
        assert page.inner_text(".people .agreed").startswith("rk0")


def hand_in_share(client: Client, key: Holder, shares: dict[str, str]) -> int:
    share = key.share(base64.b64decode(shares[key.name]))
    remaining: int = hand_in(client, share, key.sign(share)).data["remaining"]
    return remaining


def test_contexts_are_switched_and_a_locked_key_is_opened(
    deployment: Server, tmp_path: Path, opened: "Callable[..., Page]"
) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        load_pem_private_key,
    )
    from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
    from msgspec.structs import replace

    alice = user("alice")
    key = load_pem_private_key(alice.key_pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    certificate = x509.load_der_x509_certificate(alice.der)
    content = serialize_key_and_certificates(
        b"me", key, certificate, None, BestAvailableEncryption(b"correct horse")
    )
    (tmp_path / "me.p12").write_bytes(content)
    anonymous = context_of(deployment, tmp_path)
    locked = replace(anonymous, pkcs12=str(tmp_path / "me.p12"))
    with console(tmp_path, {"prod": anonymous, "mine": locked}) as found:
        page = opened(found)
        page.click(".contexts summary")
        page.click(".contexts >> text=mine")
        assert "Your key is locked" in page.inner_text("main")
        page.fill("input[type=password]", "wrong")
        page.click("text=Unlock")
        assert "cannot be read" in page.inner_text("[role=alert]")
        page.goto(page.url.replace("/unlock", "/trust"))
        page.fill("input[type=password]", "correct horse")
        page.click("text=Unlock")
        page.wait_for_selector("dd strong >> text=alice")
        assert "correct horse" not in page.content()
