"""A recovery that ends while the console looks at it: a fresh quote decides, not the old root."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.living.relay import FaultyRelay
from support.peers.console import context_of
from support.process.server import Server
from support.samples.recovery import ciphertexts_of, hand_in, holders, recoverable

from keyhouse.client.contexts import Contexts, write
from keyhouse.console.recovery_state import offer_of

pytestmark = pytest.mark.acceptance


@pytest.mark.parametrize("recovered_at", [0, 1, 2])
def test_a_recovery_may_end_between_the_quote_and_the_request(
    recovered_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connection 1 brings the quote; later connections need the root of this quote."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (holder,) = holders(1)
    server = Server(tmp_path / "data")
    with server, server.client() as client:
        shares = ciphertexts_of(client.set_manifest(recoverable([holder])))
    (tmp_path / "data" / "sealed_key").unlink()

    with server, server.client() as client, FaultyRelay(server.port) as relay:

        def recover(number: int) -> None:
            if number == recovered_at:
                share = holder.share(shares[holder.name])
                assert hand_in(client, share, holder.sign(share)).status == 200

        relay.before = recover
        context = replace(context_of(server, tmp_path), address=f"127.0.0.1:{relay.port}")
        write(tmp_path / "keyhouse" / "contexts.toml", Contexts("prod", {"prod": context}))
        offer = asyncio.run(offer_of("prod", ""))

    assert (offer is None) is bool(recovered_at)
