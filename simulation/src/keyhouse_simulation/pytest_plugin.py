"""The fixtures of ``keyhouse.testing`` for pytest.

Here, for it is loaded by every pytest run where its distribution is installed, and that is where
there is a simulated platform. The kit itself is imported by the first test that uses it.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from keyhouse.testing import Deployment


@pytest.fixture
def keyhouse_deployment() -> "Iterator[Callable[..., Deployment]]":
    """Return what starts deployments: ``Deployment`` with its arguments, ended with the test."""
    from keyhouse.testing import Deployment

    with ExitStack() as ends:
        yield lambda *given, **named: ends.enter_context(Deployment(*given, **named))
