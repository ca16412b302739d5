"""Modules come from the packed file only while Python would import the same source."""

import importlib
import importlib.util
import inspect
import os
import py_compile
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from keyhouse.base.process.pack_code import write_packed
from keyhouse.base.process.packed_code import use_packed_code

_TIME_NS = 1_700_000_000_123_456_789
_NAMES = ("packed_sample", "packed_sample.part")


def _purge() -> None:
    for name in _NAMES:
        sys.modules.pop(name, None)


def _write(path: Path, value: str, time_ns: int = _TIME_NS) -> None:
    path.write_text(f"def value() -> str:\n    return {value!r}\n")
    os.utime(path, ns=(time_ns, time_ns))
    importlib.invalidate_caches()


class Sample:
    """A package with a module, and a packed file with both."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "sample.packed"
        self.folder = folder / "modules" / "packed_sample"
        self.folder.mkdir(parents=True)
        self.part = self.folder / "part.py"
        _write(self.folder / "__init__.py", "package")
        _write(self.part, "first")

    def compile(self, mode: py_compile.PycInvalidationMode | None = None) -> None:
        for source in (self.folder / "__init__.py", self.part):
            py_compile.compile(str(source), doraise=True, invalidation_mode=mode)

    def pack(self, *names: str) -> None:
        specs = [importlib.util.find_spec(name) for name in names or (*_NAMES, "msgspec._core")]
        write_packed(self.file, (spec for spec in specs if spec is not None))
        _purge()

    def use(self) -> ModuleType:
        """Return the module, imported after ``use_packed_code``."""
        use_packed_code(str(self.file))
        return importlib.import_module("packed_sample.part")


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sample]:
    made = Sample(tmp_path)
    monkeypatch.syspath_prepend(str(made.folder.parent))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    _purge()
    yield made
    _purge()


def test_module_comes_from_the_file_while_its_source_seems_the_same(sample: Sample) -> None:
    sample.compile()
    sample.pack()
    _write(sample.part, "other")  # the same size and time: Python would use old bytecode, too
    module = sample.use()
    assert module.value() == "first"
    assert module.__name__ == "packed_sample.part"
    assert (module.__package__, module.__file__) == ("packed_sample", str(sample.part))
    assert module.__cached__ == importlib.util.cache_from_source(str(sample.part))
    package = sys.modules["packed_sample"]
    assert package.__path__ == [str(sample.folder)]
    assert package.value() == "package"
    assert "other" in inspect.getsource(module)


def _change_time(sample: Sample) -> None:
    _write(sample.part, "other", _TIME_NS + 1)


def _change_size(sample: Sample) -> None:
    _write(sample.part, "another")


def _look_elsewhere(sample: Sample) -> None:
    _write(sample.part, "other")
    sys.path.append(str(sample.file.parent))


def _cut_in_the_setting(sample: Sample) -> None:
    _write(sample.part, "other")
    sample.file.write_bytes(sample.file.read_bytes()[:40])


def _cut_at_the_end(sample: Sample) -> None:
    _write(sample.part, "other")
    sample.file.write_bytes(sample.file.read_bytes()[:-1])


def _garbage(sample: Sample) -> None:
    _write(sample.part, "other")
    sample.file.write_bytes(os.urandom(64))


def _none(sample: Sample) -> None:
    _write(sample.part, "other")
    sample.file.unlink()


def _folder(sample: Sample) -> None:
    _none(sample)
    sample.file.mkdir()


def _pipe(sample: Sample) -> None:
    _none(sample)
    os.mkfifo(sample.file)


@pytest.mark.parametrize(
    "change",
    [
        *(
            _change_time,
            _change_size,
            _look_elsewhere,
            _cut_in_the_setting,
            _cut_at_the_end,
            _garbage,
        ),
        *(_none, _folder, _pipe),
    ],
)
def test_module_comes_from_its_source_otherwise(
    sample: Sample, change: Callable[[Sample], None]
) -> None:
    sample.compile()
    sample.pack()
    for bytecode in sample.folder.glob("__pycache__/*"):
        bytecode.unlink()
    change(sample)
    assert sample.use().value() in {"other", "another"}


def test_what_is_gone_is_not_found_in_the_file(sample: Sample) -> None:
    sample.compile()
    sample.pack()
    sample.part.unlink()
    with pytest.raises(ModuleNotFoundError, match=r"packed_sample\.part"):
        sample.use()


def test_unchecked_bytecode_is_packed_without_a_check(sample: Sample) -> None:
    sample.compile(py_compile.PycInvalidationMode.UNCHECKED_HASH)
    sample.pack()
    _change_size(sample)
    assert sample.use().value() == "first"


@pytest.mark.parametrize("mode", [None, py_compile.PycInvalidationMode.CHECKED_HASH])
def test_outdated_bytecode_is_not_packed(
    sample: Sample, mode: py_compile.PycInvalidationMode | None
) -> None:
    sample.compile(mode)
    _change_size(sample)
    sample.pack()
    assert sample.use().value() == "another"


def test_library_is_found_by_the_file(sample: Sample) -> None:
    sample.compile()
    sample.pack()
    use_packed_code(str(sample.file))
    found = sys.meta_path[0].find_spec("msgspec._core", None)
    assert found is not None
    assert isinstance(found.loader, ExtensionFileLoader)
    usual = importlib.util.find_spec("msgspec._core")
    assert usual is not None
    assert found.origin == usual.origin
