"""Workloads that have joined a coordinator over gRPC."""

import uuid

from support.peers.workloads import grpcio, request
from support.process.server import Server
from support.samples.deployment import User

__all__ = ["joined"]


def joined(server: Server, marble_type: str = "web", marble: str = "") -> User:
    """Activate a workload; return it as a client of the Client API."""
    with grpcio(server.mesh_port) as channel:
        ended = channel.call(request(MarbleType=marble_type, UUID=marble or str(uuid.uuid4())))
    assert ended.answer is not None, ended
    env = ended.answer.Parameters.Env
    chain = env["MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN"]
    return User(b"", chain, env["MARBLE_PREDEFINED_PRIVATE_KEY"])
