"""Workloads that have joined a coordinator over gRPC."""

import uuid

from support.peers.workloads import Ended, grpcio, request
from support.process.server import Server
from support.samples.deployment import User

__all__ = ["asked_to_join", "joined", "workload"]


def asked_to_join(server: Server, marble_type: str, marble: str = "") -> Ended:
    """Request an activation of a new workload, or of ``marble`` (a UUID); return the answer."""
    with grpcio(server.mesh_port) as channel:
        return channel.call(request(MarbleType=marble_type, UUID=marble or str(uuid.uuid4())))


def joined(server: Server, marble_type: str = "web", marble: str = "") -> User:
    """Activate a workload; return the workload as a client of the Client API."""
    return workload(asked_to_join(server, marble_type, marble))


def workload(ended: Ended) -> User:
    """Return the activated workload as a client of the Client API."""
    assert ended.answer is not None, ended
    env = ended.answer.Parameters.Env
    chain = env["MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN"]
    return User(b"", chain, env["MARBLE_PREDEFINED_PRIVATE_KEY"])
