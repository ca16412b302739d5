"""Headers of answers: any decoder of HPACK reads them, whatever table it allows."""

import pytest
from hpack import Decoder
from hypothesis import given, strategies as st

from keyhouse.server.grpc.http2 import HeaderEncoder

HEADERS = st.lists(st.tuples(st.binary(min_size=1, max_size=300), st.binary(max_size=300)))


@pytest.mark.parametrize("most", [0, 1, 4096, 65536])
@given(blocks=st.lists(HEADERS, min_size=1, max_size=4))
def test_each_block_is_read_back(most: int, blocks: list[list[tuple[bytes, bytes]]]) -> None:
    encoder, decoder = HeaderEncoder(), Decoder()
    decoder.max_header_list_size = 2**20
    # As a client's SETTINGS_HEADER_TABLE_SIZE has it: less than the default has to be confirmed.
    decoder.max_allowed_table_size = most
    encoder.header_table_size = most
    for block in blocks:
        assert decoder.decode(encoder.encode(block), raw=True) == block
    assert decoder.header_table_size == 0


def test_a_long_text_is_read_back() -> None:
    headers = [(b"grpc-message", b"x" * 5000), (b":status", b"200")]
    assert Decoder().decode(HeaderEncoder().encode(headers), raw=True) == headers
