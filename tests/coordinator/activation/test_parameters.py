"""The parameters of a workload: its own keys, keys of the deployment, no unused secrets."""

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from support.samples.activation import Deployment, deployment, marble_manifest
from support.samples.deployment import upload, user

from keyhouse.base.errors import ConflictError
from keyhouse.coordinator import ActivationParameters, InitiateUpdate, SentUpdate, prepare_update
from keyhouse.coordinator.core.policy import policy_of

MARBLE = "11111111-2222-3333-4444-555555555555"
KEYS = {
    "shared": {"Type": "symmetric-key", "Size": 128, "Shared": True},
    "own": {"Type": "symmetric-key", "Size": 256},
    "web": {"Type": "cert-ecdsa", "Size": 256, "Shared": True},
    "fresh": {"Type": "cert-ed25519"},
    "token": {"Type": "plain", "UserDefined": True},
    "chain": {"Type": "cert-ecdsa", "Size": 256, "UserDefined": True},
}


def marble(**further: Any) -> dict[str, Any]:
    return {"Package": "app", **further}


def templates(**files: str) -> dict[str, Any]:
    return marble(Parameters={"Files": files})


async def replaced(opened: Deployment, raw: bytes) -> None:
    """Update the manifest to ``raw``; the only user may do this."""
    engine = opened.engine
    command = prepare_update(
        engine.view.running, SentUpdate(user("admin").der, raw), now=engine.current.now()
    )
    assert isinstance(command, InitiateUpdate)
    await engine.submit(command)


async def test_every_workload_gets_the_predefined_variables(tmp_path: Path) -> None:
    files = {"/a": "plain", "/b": {"Data": "{{ x }}", "NoTemplates": True}}
    env = {"MARBLE_PREDEFINED_ROOT_CA": "mine", "MODE": {"Data": "cHJvZA==", "Encoding": "base64"}}
    parameters = {"Files": files, "Env": env, "Argv": ["./web", "{{ no template }}"]}
    async with deployment(tmp_path, marble_manifest({"web": marble(Parameters=parameters)})) as on:
        given = await on.join(marble=MARBLE)
        keys = on.engine.view.state.keys

    assert given.files == {"/a": b"plain", "/b": b"{{ x }}"}
    assert given.argv == ("./web", "{{ no template }}")
    assert given.env["MODE"] == b"prod"
    assert "MARBLE_TTLS_CONFIG" not in given.env
    root, intermediate = (
        x509.load_der_x509_certificate(der) for der in (keys.root_cert, keys.intermediate_cert)
    )
    marble_root = x509.load_pem_x509_certificate(given.env["MARBLE_PREDEFINED_ROOT_CA"])
    chain = x509.load_pem_x509_certificates(given.env["MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN"])
    key = load_pem_private_key(given.env["MARBLE_PREDEFINED_PRIVATE_KEY"], None)
    assert chain[1] == intermediate
    chain[0].verify_directly_issued_by(marble_root)
    assert chain[0].public_key() == key.public_key()
    found = given.env["MARBLE_PREDEFINED_COORDINATOR_ROOT_CA"]
    assert x509.load_pem_x509_certificate(found) == root


async def test_templates_read_what_belongs_to_the_workload(tmp_path: Path) -> None:
    read = templates(
        shared="{{ raw .Secrets.shared }}",
        own="{{ raw .Secrets.own }}",
        web="{{ pem .Secrets.web.Cert }}{{ pem .Secrets.web.Private }}",
        fresh="{{ pem .Secrets.fresh.Cert }}",
        again="{{ pem .Secrets.fresh.Cert }}",
        before="{{ raw .Previous.Secrets.own }}{{ raw .Previous.Secrets.shared }}",
        leaf="{{ pem .MarbleRun.MarbleCert.Cert }}",
        roots="{{ pem .MarbleRun.RootCA.Cert }}{{ pem .MarbleRun.CoordinatorRoot.Cert }}"
        "{{ pem .MarbleRun.CoordinatorIntermediate.Cert }}",
    )
    unbound = {**read, "DisableSecretBinding": True}
    raw = marble_manifest({"web": read, "other": read, "unbound": unbound}, Secrets=KEYS)
    async with deployment(tmp_path, raw) as on:
        first, again = [(await on.join(marble=MARBLE)).files for _ in range(2)]
        another = (await on.join()).files
        other = (await on.join("other", MARBLE)).files
        free = (await on.join("unbound", MARBLE)).files

    assert len({files["shared"] for files in (first, again, another, other, free)}) == 1
    assert first["own"] == again["own"]
    assert len({files["own"] for files in (first, another, other, free)}) == 4
    assert first["before"] == first["own"] + first["shared"]
    assert first["web"] == another["web"]
    assert first["fresh"] == first["again"]  # an activation has a single certificate
    assert first["fresh"] != again["fresh"]
    assert first["leaf"] != again["leaf"]
    assert len(x509.load_pem_x509_certificates(first["roots"])) == 3


async def test_previous_values_are_those_before_the_last_update(tmp_path: Path) -> None:
    read = templates(
        own="{{ raw .Secrets.own }}",
        before="{{ raw .Previous.Secrets.own }}",
        shared="{{ raw .Secrets.shared }}",
        earlier="{{ raw .Previous.Secrets.shared }}",
    )
    rotating = marble_manifest({"web": read}, Secrets=KEYS, Config={"RotateRootSecret": True})
    async with deployment(tmp_path, marble_manifest({"web": read}, Secrets=KEYS)) as on:
        old = (await on.join(marble=MARBLE)).files
        await replaced(on, rotating)
        new = (await on.join(marble=MARBLE)).files

    assert new["before"] == old["own"] != new["own"]
    assert new["earlier"] == old["shared"] != new["shared"]


async def test_a_previous_value_of_a_smaller_key_keeps_its_size(tmp_path: Path) -> None:
    read = templates(own="{{ raw .Secrets.own }}", before="{{ raw .Previous.Secrets.own }}")
    async with deployment(tmp_path, marble_manifest({"web": read}, Secrets=KEYS)) as on:
        old = (await on.join(marble=MARBLE)).files["own"]
        grown = {**KEYS, "own": {"Type": "symmetric-key", "Size": 512}}
        await replaced(on, marble_manifest({"web": read}, Secrets=grown))
        new = (await on.join(marble=MARBLE)).files

    assert (len(old), len(new["own"])) == (32, 64)
    assert new["own"].startswith(old)  # HKDF: a longer key begins with the shorter one
    assert len(new["before"]) == 64  # a changed definition overwrites the previous value


async def test_uploaded_values_are_delivered_and_needed(tmp_path: Path) -> None:
    writer = {"ResourceType": "Secrets", "ResourceNames": ["token"], "Actions": ["WriteSecret"]}
    admin = json.loads(marble_manifest())["Users"]["admin"]
    raw = marble_manifest(
        {"web": templates(found="{{ raw .Secrets.token }}{{ raw .Previous.Secrets.token }}")},
        Secrets=KEYS,
        Roles={"token": writer},
        Users={"admin": {**admin, "Roles": [*admin["Roles"], "token"]}},
    )
    async with deployment(tmp_path, raw) as on:
        with pytest.raises(
            ConflictError, match=r'"token" .*Marbles\.web\.Parameters\.Files\.found'
        ):
            await on.join()
        await upload(on.engine, {"token": b"hello"}, by="admin")
        assert (await on.join()).files == {"found": b"hellohello"}


async def test_nothing_is_made_that_the_type_does_not_use(tmp_path: Path) -> None:
    slow = {"rsa": {"Type": "cert-rsa", "Size": 4096}}
    raw = marble_manifest({"web": marble()}, Secrets={**KEYS, **slow})
    async with deployment(tmp_path, raw) as on:
        recipe = policy_of(on.engine.view.running.manifest).recipe("web")
        assert recipe is not None
        assert (recipe.secrets, recipe.previous, recipe.is_costly) == ({}, {}, False)
        await on.join()


def tls(given: ActivationParameters) -> Any:
    return json.loads(given.env["MARBLE_TTLS_CONFIG"])


async def test_tls_tags_become_the_configuration_of_transparent_tls(tmp_path: Path) -> None:
    tags = {
        "in": {"Incoming": [{"Port": "8080"}]},
        "out": {"Outgoing": [{"Addr": "db.example.com", "Port": "5432"}]},
        "api": {"Incoming": [{"Port": "443", "Cert": "web", "DisableClientAuth": True}]},
    }
    raw = marble_manifest(
        {"web": marble(TLS=["in", "out", "api"]), "none": marble()}, Secrets=KEYS, TLS=tags
    )
    async with deployment(tmp_path, raw) as on:
        given = await on.join()
        assert "MARBLE_TTLS_CONFIG" not in (await on.join("none")).env
        web = on.engine.view.running.secrets["web"]

    chain = given.env["MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN"].decode()
    leaf = chain[: chain.index("-----END CERTIFICATE-----\n") + 26]
    own = {
        "cacrt": given.env["MARBLE_PREDEFINED_ROOT_CA"].decode(),
        "clicrt": leaf,
        "clikey": given.env["MARBLE_PREDEFINED_PRIVATE_KEY"].decode(),
    }
    served = tls(given)["tls"]["Incoming"].pop("*:443")
    assert tls(given)["tls"]["Outgoing"] == {"db.example.com:5432": own}
    assert tls(given)["tls"]["Incoming"]["*:8080"] == {**own, "clientAuth": True}
    assert served["clientAuth"] is False
    assert served["cacrt"] == own["cacrt"]
    assert x509.load_pem_x509_certificate(served["clicrt"].encode()) == (
        x509.load_der_x509_certificate(web.cert)
    )


async def test_a_port_that_is_served_with_an_upload_needs_it(tmp_path: Path) -> None:
    tags = {"api": {"Incoming": [{"Port": "443", "Cert": "chain", "DisableClientAuth": True}]}}
    raw = marble_manifest({"web": marble(TLS=["api"])}, Secrets=KEYS, TLS=tags)
    async with deployment(tmp_path, raw) as on:
        with pytest.raises(ConflictError, match='"chain"'):
            await on.join()
