"""Invalid limits are refused when they are made."""

from typing import Any

import pytest

from keyhouse.base.errors import BrokenError
from keyhouse.server.net.limits import Limits, WorkloadLimits

KINDS = (Limits, WorkloadLimits)
EACH = [(kind, name) for kind in KINDS for name in kind.__struct_fields__]


@pytest.mark.parametrize(("kind", "name"), EACH, ids=lambda part: getattr(part, "__name__", part))
@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan"), True, None, "1"])
def test_limit_that_is_none_is_refused_by_name(
    kind: type[Limits | WorkloadLimits], name: str, value: Any
) -> None:
    with pytest.raises(BrokenError, match=name):
        kind(**{name: value})


@pytest.mark.parametrize("name", ["headers", "connections", "body_memory"])
@pytest.mark.parametrize("value", [1.5, 2.0])
def test_size_or_count_is_a_whole_number(name: str, value: Any) -> None:
    with pytest.raises(BrokenError, match=name):
        Limits(**{name: value})


def test_time_may_be_a_whole_number() -> None:
    assert Limits(idle_timeout=1).idle_timeout == 1
