"""Replicas under anything that a distributed store does; ``scripts/fuzz replicas`` for longer."""

import pytest
from hypothesis import settings
from support.replicas.machine import Replicas

TestReplicas = pytest.mark.timeout(120)(Replicas.TestCase)
TestReplicas.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
