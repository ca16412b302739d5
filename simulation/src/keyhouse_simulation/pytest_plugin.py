"""The fixtures of ``keyhouse.testing`` for pytest.

Every pytest run loads this module if its distribution is installed, and only that distribution has
a simulated platform. The first test with the fixture imports the test kit itself.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from keyhouse.testing import Deployment


@pytest.fixture
def keyhouse_deployment() -> "Iterator[Callable[..., Deployment]]":
    """Yield a function that starts deployments with the arguments of ``Deployment``.

    The end of the test ends its deployments.
    """
    from keyhouse.testing import Deployment

    with ExitStack() as ends:
        yield lambda *given, **named: ends.enter_context(Deployment(*given, **named))
