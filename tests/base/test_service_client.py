"""The HTTPS client for services: no request searches for an absent module."""

import asyncio
import sys
from importlib import import_module, metadata
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec

import pytest


class _Recorder(MetaPathFinder):
    """Records the names of all modules in Python's searches."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def find_spec(self, name: str, _path: object, _target: object = None, /) -> ModuleSpec | None:
        self.names.append(name)
        return None


async def _library() -> str:
    """Return the async library detected by httpcore. Each of its locks repeats the detection."""
    return str(import_module("httpcore._synchronization").current_async_library())


def test_a_missing_module_of_the_library_is_not_searched_again() -> None:
    if any(each.name == "sniffio" for each in metadata.distributions()):
        pytest.skip("sniffio is installed")
    import_module("keyhouse.base.services")
    import_module("httpcore._synchronization")
    recorder = _Recorder()
    sys.meta_path.insert(0, recorder)
    try:
        assert asyncio.run(_library()) == "asyncio"
    finally:
        sys.meta_path.remove(recorder)
    assert recorder.names == []
