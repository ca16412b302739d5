"""The fixtures of ``keyhouse.testing`` for pytest.

Every pytest run loads this module if ``keyhouse-simulation`` is installed. The first test with the
fixture imports the test kit. The test kit needs the simulated platform of this distribution.
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

    The end of the test ends these deployments.
    """
    from keyhouse.testing import Deployment

    with ExitStack() as ends:
        yield lambda *given, **named: ends.enter_context(Deployment(*given, **named))
