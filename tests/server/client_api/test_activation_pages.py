"""Pages of the audit trail: bounded in bytes, and each tells where the next one begins."""

from pathlib import Path

import msgspec
from support.samples.activation import deployment, marble_manifest
from support.samples.deployment import user
from support.samples.signing_request import signing_request

from keyhouse.server.client_api import Answers
from keyhouse.server.client_api.v2.activations import PAGE_BYTES, read_activations
from keyhouse.server.http.exchange import Head
from keyhouse.wire.client_api import Activation, Activations
from keyhouse.wire.json_decoder import decode

JOINED = 90
NAMES = [f"{number:03}." + ".".join(["n" * 63] * 2) + ".test" for number in range(100)]


class Page(msgspec.Struct):
    """An answer with a page."""

    data: Activations


async def test_page_of_large_entries_is_cut_and_the_next_goes_on(tmp_path: Path) -> None:
    request = signing_request(NAMES, ())
    raw = marble_manifest({"web": {"Package": "app", "MaxActivations": JOINED}})
    async with deployment(tmp_path, raw) as opened:
        for _ in range(JOINED):
            await opened.join(csr=request)
        view, start = opened.engine.view, 0
        answers = Answers(lambda: view, simulated=True)
        found: list[Activation] = []
        while start < view.log.audit.end:
            query = b"from=%d" % start
            head = Head("GET", "/api/v2/activations", query, user("admin").der)
            answer = read_activations(answers, view, head)
            assert len(answer.body) <= PAGE_BYTES + 2000  # commas and the envelope
            page = decode(answer.body, Page).data
            assert page.first == start
            assert 0 < len(page.activations) < JOINED
            found += page.activations
            start = page.next
        assert len({entry.uuid for entry in found}) == len(found) == JOINED
