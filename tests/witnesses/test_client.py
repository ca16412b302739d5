"""What the answers of a witness are taken for."""

import asyncio
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from support.cosigner import Cosigner
from support.peers.witness import Answered, Witness as Peer
from support.tree import Tree

from keyhouse.transparency.keys import ANSWER_BYTES, ED25519, VerifierKey, cosigned, signature_of
from keyhouse.transparency.note import Checkpoint, SignedNote
from keyhouse.transparency.policy import Witness
from keyhouse.transparency.tree import consistency_proof
from keyhouse.witnesses.answers import Contradicts, Cosigned, OtherSize, WitnessAnswer
from keyhouse.witnesses.client import WitnessClient, WitnessUnavailableError

TREE = Tree(20)
KEY = Ed25519PrivateKey.generate()
LOG = VerifierKey("log.example/a", ED25519, KEY.public_key().public_bytes_raw())


def note(size: int, root: bytes = b"") -> SignedNote:
    text = Checkpoint(LOG.name, size, root or TREE.root(size)).encode()
    return SignedNote(text, (signature_of(KEY, LOG, text),))


@pytest.fixture(name="peer", scope="module")
def _peer() -> Iterator[Peer]:
    with Peer(Cosigner.ed25519()) as peer:
        peer.trust(str(LOG))
        yield peer


def ask(peer: Peer, old: int, proof: list[bytes], sent: SignedNote, url: str = "") -> WitnessAnswer:
    async def asked() -> WitnessAnswer:
        witness = Witness("W", peer.cosigner.verifier, url or peer.url)
        async with WitnessClient() as client:
            return await client.add_checkpoint(witness, old, proof, sent.encode())

    return asyncio.run(asked())


def test_a_log_that_grows_is_cosigned_and_nothing_else(peer: Peer) -> None:
    proof = consistency_proof(TREE.node, 5, 11)
    for old, path, size in ((0, [], 5), (5, [], 5), (5, proof, 11)):
        told = ask(peer, old, path, note(size))
        assert isinstance(told, Cosigned)
        assert len(cosigned(note(size), told.lines, peer.cosigner.verifier).signatures) == 2
    assert ask(peer, 5, proof, note(11)) == OtherSize(11)
    assert ask(peer, 11, [], note(11, bytes(32))) == OtherSize(11)
    assert ask(peer, 11, [bytes(32)], note(12)) == Contradicts()


@pytest.mark.parametrize(
    "answer",
    [
        Answered(500),
        Answered(404),
        Answered(403),
        Answered(201, b"x"),
        Answered(302),
        Answered(409, b"5\n"),
        Answered(409, b"", "text/x.tlog.size"),
        Answered(409, b"05\n", "text/x.tlog.size"),
        Answered(409, b"-5\n", "text/x.tlog.size"),
        Answered(409, b"5\n\n", "text/x.tlog.size"),
        Answered(409, b"9" * 20, "text/x.tlog.size"),
        Answered(200, b"x" * (ANSWER_BYTES + 1)),
    ],
)
def test_every_other_answer_is_not_now(peer: Peer, answer: Answered) -> None:
    peer.instead = answer
    try:
        with pytest.raises(WitnessUnavailableError):
            ask(peer, 0, [], note(1))
    finally:
        peer.instead = None


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9",
        "http://witness.example",
        "https://127.0.0.1:9/",
        "file:///a",
        "https://999.1.1.1",  # which the library has two kinds of errors for, neither its HTTPError
        "https://xn--zz/",
    ],
)
def test_who_cannot_be_reached_or_must_not_be_is_not_now(peer: Peer, url: str) -> None:
    with pytest.raises(WitnessUnavailableError):
        ask(peer, 0, [], note(1), url)


async def test_a_handshake_that_is_cut_off_closes_its_connection_at_once(peer: Peer) -> None:
    hello, ended = asyncio.Event(), asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read(1 << 16)
        hello.set()
        assert await reader.read() == b""
        ended.set()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1")
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server, WitnessClient(patience=60.0) as client:
        witness = Witness("W", peer.cosigner.verifier, url)
        asking = asyncio.create_task(client.add_checkpoint(witness, 0, [], note(1).encode()))
        await hello.wait()
        asking.cancel()
        await asyncio.wait([asking])
        await asyncio.wait_for(ended.wait(), 60.0)  # though the client is still in use
