"""The HTTP/2 of one connection: h2 with smaller limits than its own."""

from typing import Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

from keyhouse.server.grpc.header_encoder import HeaderEncoder

# Headers of clients stay bytes, which need not be text. Those of answers are our own: names are
# lower-case, texts percent-encoded.
_CONFIGURATION: Final = H2Configuration(
    client_side=False,
    header_encoding=None,
    normalize_outbound_headers=False,
    validate_outbound_headers=False,
)


class Http2(H2Connection):
    """The side of a server. ``metadata`` bounds a header list, ``streams`` those that are open."""

    MAX_CLOSED_STREAMS = 256  # that are remembered; 65,536 would be megabytes

    def __init__(self, metadata: int, streams: int) -> None:
        super().__init__(config=_CONFIGURATION)
        self.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: streams,
                SettingCodes.MAX_HEADER_LIST_SIZE: metadata,
                SettingCodes.ENABLE_PUSH: 0,
            },
        )
        self.decoder.max_header_list_size = metadata
        self.encoder = HeaderEncoder()

    def going_away(self, code: ErrorCodes = ErrorCodes.NO_ERROR) -> bytes:
        """Return the frame that says that no new streams are taken.

        h2's own way leaves no possibility to answer the streams that are open.
        """
        last = self.highest_inbound_stream_id
        frame = GoAwayFrame(0, last_stream_id=last, error_code=code)
        return bytes(frame.serialize())

    def release(self) -> None:
        """Let go of everything; nothing can be asked of it afterwards.

        h2 holds a table of its own methods. Such a circle is left to the collector, which would
        find the memory of a thousand connections at once, cold and with everybody waiting.
        """
        vars(self).clear()
