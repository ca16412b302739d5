"""What errors become for their callers, and how refusals are written for gRPC."""

from urllib.parse import unquote

from hypothesis import given, strategies as st

from keyhouse.base import errors
from keyhouse.server.net.error_mapping import ERRORS, wording
from keyhouse.server.net.grpc_status import GrpcStatus, as_message


@given(st.text(max_size=3000))
def test_message_of_a_refusal_is_printable_and_can_be_read_back(text: str) -> None:
    encoded = as_message(text.encode("utf-8", "replace").decode("utf-8")).decode("ascii")

    assert encoded.isprintable()
    assert len(encoded) <= 2048
    read = unquote(encoded, errors="strict" if len(text) < 500 else "replace")
    assert read == text.encode("utf-8", "replace").decode() or encoded.endswith("...")


def _classes(kind: type[errors.KeyhouseError]) -> set[type[errors.KeyhouseError]]:
    return {kind}.union(*map(_classes, kind.__subclasses__()))


def test_every_error_of_the_tree_has_its_own_row() -> None:
    tree = {kind for kind in _classes(errors.KeyhouseError) if kind.__module__ == errors.__name__}

    assert tree <= set(ERRORS)
    assert all(GrpcStatus.OK is not row.grpc for row in ERRORS.values())


def test_error_of_a_room_is_worded_as_its_nearest_class() -> None:
    class Local(errors.ForbiddenError):
        pass

    assert wording(Local("no")) is ERRORS[errors.ForbiddenError]


def test_status_is_labelled_as_go_labels_it() -> None:
    shown = {status.label for status in GrpcStatus}

    assert {"OK", "Canceled", "InvalidArgument", "FailedPrecondition", "PermissionDenied"} <= shown
