"""An immediate answer leaves with the frames of the protocol: each packet wakes the client."""

import asyncio

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RemoteSettingsChanged, SettingsAcknowledged, StreamEnded
from support.peers.workloads import HEADERS, framed

from keyhouse.server.grpc.call import CallClient
from keyhouse.server.grpc.connection import GrpcConnection
from keyhouse.server.grpc.service import GrpcService
from keyhouse.server.net.limits import WorkloadLimits

PATH = dict(HEADERS)[":path"]


class Carrier:
    """The transport of a connection. It records each write."""

    identity = b"a certificate"
    server_leaf = b""

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def pause_reading(self) -> None:
        """Do nothing: the test decides about the reads."""

    def resume_reading(self) -> None:
        """Do nothing, as ``pause_reading``."""

    def close(self, linger: int = 0) -> None:
        raise AssertionError(linger)

    def abort(self) -> None:
        raise AssertionError


class Served:
    """A connection with a single method. The handler waits for ``ready``."""

    def __init__(self, ready: asyncio.Event) -> None:
        async def handle(message: bytes, caller: CallClient) -> bytes:
            del caller
            await ready.wait()
            return message

        self.carrier = Carrier()
        self.connection = GrpcConnection(GrpcService({PATH: handle}, WorkloadLimits()), 0)
        self.connection.connecting(self.carrier)
        self.connection.connection_made()
        self.client = H2Connection(H2Configuration())
        self.client.initiate_connection()

    def call(self, stream: int) -> None:
        self.client.send_headers(stream, HEADERS)
        self.client.send_data(stream, framed(b"message"), end_stream=True)
        self.connection.data_received(self.client.data_to_send())

    def received(self) -> list[set[type]]:
        """Return the events of each write for the client."""
        writes, self.carrier.writes = self.carrier.writes, []
        return [{type(event) for event in self.client.receive_data(each)} for each in writes]


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_settings_their_acknowledgement_and_an_immediate_answer_are_one_write() -> None:
    ready = asyncio.Event()
    ready.set()
    served = Served(ready)
    assert not served.received()  # the client sends its settings at once
    served.call(1)
    await turns()
    (events,) = served.received()
    assert {RemoteSettingsChanged, SettingsAcknowledged, DataReceived, StreamEnded} <= events
    served.call(3)
    await turns()
    (events,) = served.received()
    assert {DataReceived, StreamEnded} <= events


async def test_frames_of_the_protocol_do_not_wait_for_a_handler_that_waits() -> None:
    ready = asyncio.Event()
    served = Served(ready)
    served.call(1)
    await turns()
    (events,) = served.received()
    assert {RemoteSettingsChanged, SettingsAcknowledged} <= events
    assert DataReceived not in events
    ready.set()
    await turns()
    (events,) = served.received()
    assert {DataReceived, StreamEnded} <= events
