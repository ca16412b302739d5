"""The deadline that a client gives: what it is, and that nothing is begun or continues after it."""

from pathlib import Path

import pytest
from support.peers.listener import workloads
from support.peers.workloads import Http2Wire, framed, request

from keyhouse.server.grpc.call import CallInvalidError, read_timeout
from keyhouse.server.net.grpc_status import GrpcStatus
from keyhouse.server.net.limits import WorkloadLimits


def asking(kind: str) -> bytes:
    """Return the framed request of a marble type."""
    return framed(request(MarbleType=kind).SerializeToString())


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (b"2H", 7200),
        (b"3M", 180),
        (b"0004S", 4),
        (b"5m", 0.005),
        (b"6u", 0.000_006),
        (b"99999999n", 0.099_999_999),
        (b"0n", 0),
    ],
)
def test_timeout_is_a_number_and_a_unit(header: bytes, seconds: float) -> None:
    assert read_timeout(header) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"1",
        b"S",
        b"-1S",
        b"+1S",
        b"1.5S",
        b"1 S",
        b"1s",
        b"1h",
        b"100000000S",
        b"1S\n",
        b"\xb2S",
    ],
)
def test_what_is_no_timeout_is_refused(header: bytes) -> None:
    with pytest.raises(CallInvalidError) as refused:
        read_timeout(header)
    assert refused.value.status is GrpcStatus.INVALID_ARGUMENT


def test_call_ends_with_its_client_s_deadline_and_its_slot_is_free(tmp_path: Path) -> None:
    limits = WorkloadLimits(calls=1, sweep_interval=0.02)
    with workloads(tmp_path, limits) as server, Http2Wire(server.port) as wire:
        assert wire.begin().call(asking("app")).status == GrpcStatus.OK
        answer = wire.call(asking("wait"), ("grpc-timeout", "1S"))
        assert answer.status == GrpcStatus.DEADLINE_EXCEEDED
        assert server.joining.cancelled.wait(20)
        server.do_until(lambda: server.listener.service.calls.held == 0)
        assert wire.call(asking("app"), ("grpc-timeout", "1H")).status == GrpcStatus.OK
        assert server.listener.service.counts.handled[
            GrpcStatus.DEADLINE_EXCEEDED, "Activate", "rpc.Marble", "unary"
        ]


@pytest.mark.parametrize("timeout", ["0n", "0H", "never"])
def test_call_whose_deadline_has_passed_or_is_none_never_runs(tmp_path: Path, timeout: str) -> None:
    expected = GrpcStatus.INVALID_ARGUMENT if timeout == "never" else GrpcStatus.DEADLINE_EXCEEDED
    with workloads(tmp_path) as server, Http2Wire(server.port) as wire:
        assert wire.begin().call(asking("app"), ("grpc-timeout", timeout)).status == expected
        assert server.joining.identities == []
        assert wire.call(asking("app"), ("grpc-timeout", "99999999H")).status == GrpcStatus.OK
