"""Steps: who may read and write which secret."""

import base64
import json

from cryptography import x509

from examples.demo.calls import Call
from examples.demo.people import make_partner, private_file
from examples.demo.shorten import pretty, shortened
from examples.demo.stage import Stage

__all__ = ["TOKEN", "read_as_carol", "read_as_others", "see_the_log", "upload_as_bob"]

_GENERATED = "/api/v2/secrets?s=clusterKey&s=apiCert"
TOKEN = b"token of a payment service"
_KEY = 32  # bytes of clusterKey


def read_as_carol(stage: Stage) -> None:
    """Read two generated secrets, which carol's role allows."""
    stage.screen.step(
        "Carol reads what the coordinator has generated",
        "Her role names clusterKey and apiCert. Who she is: the exact certificate in the manifest."
        " (The values below are of this run and end with it.)",
    )
    secrets = stage.call(Call(_GENERATED, user="carol")).json["data"]["secrets"]
    key = base64.b64decode(secrets["clusterKey"]["private"])
    stage.screen.holds(len(key) == _KEY, "clusterKey: 256 bits, made inside the coordinator")
    certificate = x509.load_der_x509_certificate(base64.b64decode(secrets["apiCert"]["cert"]))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    stage.screen.holds(
        "api.example.com" in names.get_values_for_type(x509.DNSName),
        f"apiCert: a certificate for api.example.com, by {certificate.issuer.rfc4514_string()}",
    )


def read_as_others(stage: Stage) -> None:
    """Try the same as bob, then as nobody."""
    stage.screen.step("Bob and anonymous clients cannot", "His roles name other secrets.")
    stage.refused(
        Call(_GENERATED, user="bob"), 403, "bob is refused: known, but without the permission"
    )
    stage.refused(Call(_GENERATED), 401, "without a certificate: refused")


def upload_as_bob(stage: Stage) -> None:
    """Upload three secrets, read one back, and try a key of the wrong length."""
    stage.screen.step(
        "Bob uploads the secrets that only he has",
        "The manifest declares them as user-defined. All are stored, or none. upload.json:",
    )
    partner = make_partner("partner.example.com")
    upload = {
        "secrets": {
            "apiToken": {"key": _text(TOKEN)},
            "partnerKey": {"key": _text(bytes(range(16)))},
            "partnerCert": {"cert": _text(partner.cert), "private": _text(partner.private)},
        }
    }
    private_file(stage.shell.folder / "upload.json", json.dumps(upload).encode())
    stage.screen.answer(pretty(shortened(upload)))
    stage.call(Call("/api/v2/secrets", user="bob", body="upload.json"))
    back = stage.call(Call("/api/v2/secrets?s=apiToken", user="bob"))
    stage.screen.holds(
        base64.b64decode(back.json["data"]["secrets"]["apiToken"]["private"]) == TOKEN,
        "apiToken comes back as it was sent",
    )
    stage.screen.say()
    stage.screen.say("A key of 15 bytes where the manifest says 128 bits:")
    stage.command(
        """echo '{"secrets":{"partnerKey":{"key":"MTUgYnl0ZXMgb25seS4u"}}}' > wrong.json"""
    )
    stage.refused(
        Call("/api/v2/secrets", user="bob", body="wrong.json"),
        400,
        "refused",
    )


def see_the_log(stage: Stage) -> None:
    """Read the update log."""
    stage.screen.step(
        "See what has happened",
        "The update log is public, too: what, when and who, no values. Each line is a JSON text of"
        " its own, shown here without its quotes.",
    )
    lines = stage.call(Call("/api/v2/update")).json["data"]["updateLog"]
    found = [(entry["update"], entry.get("secret")) for entry in map(json.loads, lines)]
    wanted = [("Secret set", name) for name in ("apiToken", "partnerCert", "partnerKey")]
    stage.screen.holds(
        found[0] == ("Initial manifest set", None) and sorted(found[1:]) == wanted,
        "the manifest and three uploads; refused requests left no trace",
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
