"""Who is taken for a workload: the holder of a certificate that is good at this very moment."""

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from support.samples.activation import deployment, marble_manifest
from support.samples.deployment import user

from keyhouse.authority import LIFETIME
from keyhouse.base.errors import UnauthenticatedError
from keyhouse.server.services.feature_gates import identify_marble

MARBLE = "11111111-2222-3333-4444-555555555555"
DAY = timedelta(days=1) // timedelta(microseconds=1)


async def test_a_workload_is_known_by_its_certificate_while_that_is_good(tmp_path: Path) -> None:
    async with deployment(tmp_path, marble_manifest()) as opened:
        env = (await opened.join(marble=MARBLE)).env
        chain = env["MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN"]
        leaf = x509.load_pem_x509_certificates(chain)[0].public_bytes(Encoding.DER)
        state, now = opened.engine.view.running, opened.engine.current.now()
        known = identify_marble(state, leaf, now=now)
        assert (known.marble_type, str(known.uuid)) == ("web", MARBLE)

        gone = msgspec.structs.replace(state, manifest=marble_manifest({"api": {"Package": "app"}}))
        end = now + LIFETIME // timedelta(microseconds=1)
        for case, identity, time in (
            (state, None, now),
            (state, user("admin").der, now),
            (state, leaf[:-1], now),
            (state, leaf, now - DAY),
            (state, leaf, end + DAY),
            (gone, leaf, now),
        ):
            with pytest.raises(UnauthenticatedError):
                identify_marble(case, identity, now=time)
