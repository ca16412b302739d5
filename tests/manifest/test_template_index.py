"""Which templates read which secret, and what an upload would break."""

import json

import msgspec
import pytest
from support.samples.manifests import NOW, full, sample

from keyhouse.base.secret import Secret
from keyhouse.manifest import Manifest, TemplateIndex, TemplateSource, index_templates
from keyhouse.manifest.check import check


class Value(msgspec.Struct, frozen=True):
    private: Secret
    public: Secret
    cert: bytes = b""


def data(content: bytes) -> Value:
    return Value(Secret(content), Secret(content))


def manifest_of(name: str) -> Manifest:
    return check(sample(name), now=NOW).manifest


@pytest.fixture(scope="module")
def index() -> TemplateIndex:
    return index_templates(manifest_of("full"))


def test_readers_are_indexed(index: TemplateIndex) -> None:
    assert sorted(index.readers) == [
        "apiCert", "apiToken", "clusterKey", "diskKey", "edCert", "partnerCert", "partnerKey",
        "rsaCert",
    ]  # fmt: skip
    assert {str(call) for call in index.readers["clusterKey"]} == {
        "hex .Secrets.clusterKey", "raw .Previous.Secrets.clusterKey",
    }  # fmt: skip


def test_what_a_marble_needs_is_known_before_it_is_made(index: TemplateIndex) -> None:
    storage = index.marbles["storage"]
    assert storage.names(TemplateSource.SECRETS) == {"diskKey", "apiCert", "clusterKey"}
    assert storage.names(TemplateSource.PREVIOUS) == {"clusterKey"}
    assert "MarbleCert" in storage.names(TemplateSource.MARBLERUN)
    assert not index.marbles["debugShell"].names(TemplateSource.SECRETS)


def test_values_that_are_no_templates_are_kept_as_they_are(index: TemplateIndex) -> None:
    assert index.marbles["web"].env["APP_LITERAL"].parts == (b"{{ not a template }}",)
    assert index.marbles["storage"].files["/run/app/logo.bin"].parts == (b"\x00\x01\x02\xff",)


def test_an_upload_that_fits_has_no_problem(index: TemplateIndex) -> None:
    assert index.check_upload("apiToken", data(b"token")) == ()
    assert index.check_upload("partnerKey", data(b"\0" * 16)) == ()
    assert index.check_upload("partnerCert", Value(Secret(b""), Secret(b"x"), b"cert")) == ()


def test_a_zero_byte_in_a_string_is_refused_without_showing_it(index: TemplateIndex) -> None:
    (problem,) = index.check_upload("apiToken", data(b"canary\0"))
    assert problem.at == "secrets.apiToken"
    assert "Marbles.web.Parameters.Env.APP_API_TOKEN" in problem.problem
    assert "canary" not in str(problem)


def test_an_empty_value_that_a_template_reads_is_refused(index: TemplateIndex) -> None:
    (problem,) = index.check_upload("partnerKey", data(b""))
    assert problem.problem.startswith("has no value, but Marbles.web")
    (problem,) = index.check_upload("partnerCert", Value(Secret(b"x"), Secret(b"x")))
    assert problem.problem.startswith("has no certificate")


def test_a_secret_that_no_template_reads_can_be_anything(index: TemplateIndex) -> None:
    assert index.check_upload("unread", data(b"")) == ()


def test_a_missing_private_key_is_refused_where_it_is_read() -> None:
    document = full()
    document["Marbles"]["web"]["Parameters"]["Files"]["/x"] = (
        "{{ pem .Secrets.partnerCert.Private }}"
    )
    index = index_templates(check(json.dumps(document).encode(), now=NOW).manifest)
    (problem,) = index.check_upload("partnerCert", Value(Secret(b""), Secret(b"x"), b"cert"))
    assert problem.problem.startswith("has no private key")


def test_equal_templates_are_read_once() -> None:
    document = full()
    for number in range(50):
        document["Marbles"][f"m{number}"] = document["Marbles"]["web"]
    index = index_templates(check(json.dumps(document).encode(), now=NOW).manifest)
    assert len(index.readers["apiToken"]) == 1
    assert len(index.check_upload("apiToken", data(b"\0"))) == 1
