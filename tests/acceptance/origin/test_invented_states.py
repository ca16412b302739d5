"""A host invents a state, and has genuine code serve it under a true quote.

The root key is the host's. So no client may accept the coordinator, whatever manifest is in force.
"""

import hashlib
import shutil
from pathlib import Path

import pytest
from support.host.client import accepts, end, is_served
from support.host.enclave import ADMITTED, HOST_CODE, HostEnclave, code_of_quotes
from support.host.invented_state import invent, with_line
from support.peers.replicas import Replicas, code_of, propose, with_replicas
from support.process.server import Server
from support.samples.deployment import user
from support.samples.machines import OTHER_CODE
from support.samples.recovery import hand_in, holder, recoverable
from support.samples.updates import Api

from keyhouse.attestation import Measurements, SealPolicy, open_platform
from keyhouse.base.secret import Secret
from keyhouse.journal.directory.sealing import parse, unseal
from keyhouse_simulation import COORDINATOR, add_machine

pytestmark = pytest.mark.acceptance

EXPECTED = with_replicas("the manifest that clients expect")
CLAIM = ("--claim-fingerprint", hashlib.sha256(EXPECTED).hexdigest())


@pytest.mark.parametrize("has_line", [False, True], ids=["no line", "with a line"])
@pytest.mark.parametrize(
    "earlier", [(), (EXPECTED,)], ids=["the host's manifest alone", "behind the claimed manifest"]
)
def test_the_host_s_enclave_gives_the_key_of_an_invented_state(
    replicas: Replicas,
    earlier: tuple[bytes, ...],
    has_line: bool,  # noqa: FBT001 - a case of the test
) -> None:
    assert replicas.url is not None
    line = (*earlier, with_replicas("the host's", Code=[ADMITTED]))
    victim = replicas.prepared(*CLAIM)
    enclave = HostEnclave(replicas.folder / "enclave", victim.data / "simulation")
    state = invent(*line)
    if has_line:
        state = with_line(state, line, code_of_quotes(HOST_CODE), enclave.platform.quote)
    place = state.write_database(replicas.url)
    with enclave.giving(replicas.url, state, place):
        victim.start()
    if code_of(victim) == 3:
        propose(victim, EXPECTED)
    assert not accepts(victim, EXPECTED, state.root_der)
    assert "the data key that was handed over is not used" in victim.logged()


@pytest.mark.parametrize("arguments", [(), CLAIM], ids=["no claim", "claimed"])
def test_the_host_s_holder_recovers_an_invented_state(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """Recover without a claim, update to the expected manifest, restart with the claim."""
    host = holder("the host's")
    state = invent(recoverable([host]))
    data = tmp_path / "data"
    state.write_directory(data)
    with Server(data) as victim:
        with victim.client() as client:
            share = host.share(state.running.recovery.ciphertexts[host.name])
            hand_in(client, share, host.sign(share))
        if code_of(victim) == 3:
            with victim.client(user("admin")) as admin:
                Api(2).update(admin, EXPECTED)
    victim = Server(data, arguments=arguments)
    try:
        assert not (is_served(victim) and accepts(victim, EXPECTED, state.root_der))
    finally:
        end(victim)


NOT_PROVEN = "nothing proves that this root was made by accepted code"
MADE_BY = f"{NOT_PROVEN}: it was made by UniqueID:"


@pytest.mark.parametrize(
    ("code", "says", "arguments", "problem"),
    [
        (HOST_CODE, HOST_CODE, (), MADE_BY),
        (OTHER_CODE, OTHER_CODE, ("--predecessors", "own"), MADE_BY),
        (OTHER_CODE, OTHER_CODE, CLAIM, MADE_BY),
        (
            HOST_CODE,
            COORDINATOR,
            (),
            "an entry of the line and the quote of the entry name different code",
        ),
    ],
    ids=["other signer", "signer not accepted", "claimed", "says that it is genuine"],
)
def test_quotes_of_the_host_s_enclave_prove_no_line(
    tmp_path: Path,
    code: Measurements,
    says: Measurements,
    arguments: tuple[str, ...],
    problem: str,
) -> None:
    """The quotes are true, over the right root and entries. But the code is the host's."""
    host, data = holder("the host's"), tmp_path / "data"
    line = (EXPECTED, recoverable([host]))
    data.mkdir(mode=0o700)
    platform = add_machine(tmp_path / "enclave", data / "simulation", coordinator=code)
    state = with_line(invent(*line), line, code_of_quotes(says), platform.quote)
    state.write_directory(data)
    with Server(data, arguments=arguments) as victim, victim.client() as client:
        share = host.share(state.running.recovery.ciphertexts[host.name])
        refused = hand_in(client, share, host.sign(share))
        assert refused.status == 400
        assert problem in refused.envelope["message"]
        assert code_of(victim) == 1


class SignersCode:
    """Code of the host's, of the coordinator's signer, on the machine in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._machine = open_platform("simulation", folder)

    def sealing_key(self, policy: str) -> Secret:
        """Return the key for ``policy``: only that of the product is that of the coordinator."""
        if policy == SealPolicy.PRODUCT_KEY:
            return self._machine.sealing_key(SealPolicy.PRODUCT_KEY)
        return Secret(b"unique to the code of the host's")

    def rule_in(self, sealed: bytes) -> bytes:
        """Return the digest of the rule that a genuine seal states."""
        contents = unseal(parse(sealed), self.sealing_key("ProductKey"))
        assert contents.keys[-1].line is not None
        return contents.keys[-1].line.rule


@pytest.mark.parametrize(
    ("predecessors", "is_taken"), [("own", False), ("own,signer", True)], ids=str
)
def test_a_seal_of_other_code_of_the_signer_counts_where_the_signer_is_accepted(
    tmp_path: Path,
    predecessors: str,
    is_taken: bool,  # noqa: FBT001 - a case of the test
) -> None:
    """The host signs coordinators. Where the signer is accepted it can invent a deployment."""
    line, arguments = (recoverable([holder("good")]),), ("--predecessors", predecessors)
    genuine, data = tmp_path / "genuine", tmp_path / "invented"
    with Server(genuine, arguments=arguments) as server, server.client() as client:
        assert client.set_manifest(line[0]).status == 200
    data.mkdir(mode=0o700)
    shutil.copytree(genuine / "simulation", data / "simulation")
    code = SignersCode(data)
    rule = code.rule_in((genuine / "sealed_key").read_bytes())
    enclave = add_machine(tmp_path / "enclave", data / "simulation", coordinator=OTHER_CODE)
    state = with_line(invent(*line), line, code_of_quotes(OTHER_CODE), enclave.quote)
    state.write_directory(data, sealing=code.sealing_key, rule=rule)
    victim = Server(data, arguments=arguments)
    try:
        assert is_served(victim) is is_taken, victim.logged()
        if is_taken:
            assert accepts(victim, line[0], state.root_der)
        else:
            assert "the state was sealed for the whole signer" in victim.logged()
    finally:
        end(victim)
