"""Coordinators and programs under ``gramine-direct``, rendered from the shipped template.

Without ``gramine-direct`` on PATH, these tests are skipped. ``gramine-direct`` verifies the
digests of trusted files as on hardware, but protects nothing: so the platform is simulated.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import IO, Final

import pytest

from support.installed import copy_distribution
from support.process.server import Server, free_port

__all__ = [
    "TEMPLATE",
    "EnclaveServer",
    "begin_program",
    "ended_program",
    "libraries",
    "make_runtime",
    "render",
    "require_gramine",
    "simulated",
    "sources",
    "template",
    "with_amd_collateral",
    "without_file_checks",
]

_ROOT: Final = Path(__file__).parent.parent.parent.parent
TEMPLATE: Final = _ROOT / "deploy" / "gramine" / "keyhouse.manifest.template"
_LOCK: Final = _ROOT / "locks" / "runtime.txt"
_OWN: Final = {"keyhouse": _ROOT / "src", "keyhouse_simulation": _ROOT / "simulation" / "src"}
_LEFT_OUT: Final = (
    *("__pycache__", "test", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip"),
    *("config-*", "site-packages", "dist-packages", "tests"),
)
_OF_LIBC: Final = re.compile(r"(?:ld-linux|libc|libm|libdl|libpthread|librt|libresolv|libutil)[.-]")
_NEEDED: Final = ("libgcc_s.so.1", "libstdc++.so.6")


def require_gramine(*more: str) -> None:
    """Skip the test if ``gramine-direct`` or another necessary tool of Gramine is missing."""
    for tool in ("gramine-direct", "gramine-manifest", *more):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not on PATH: see CONTRIBUTING.md, Tests")


def make_runtime(folder: Path) -> Path:
    """Return a directory with a Python and Keyhouse, for measurement as a whole.

    ``libraries(runtime)`` is the directory of shared libraries.

    Bytecode is compiled with unchecked hashes: file times are always 0 under Gramine. Bytecode with
    a time would count as stale, and be compiled again at each start.
    """
    runtime = folder / "runtime"
    stdlib = Path(sysconfig.get_path("stdlib"))
    library = runtime / "lib" / stdlib.name
    shutil.copytree(stdlib, library, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    (runtime / "bin").mkdir()
    libraries(runtime).mkdir()
    shutil.copy(Path(sys.executable).resolve(), runtime / "bin" / "python3")
    for name in re.findall(r"^([A-Za-z0-9_.-]+)==", _LOCK.read_text("utf-8"), re.MULTILINE):
        copy_distribution(name, library)
    for name, source in _OWN.items():
        shutil.copytree(source / name, library / name, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        copy_distribution(name, library)
    _copy_libraries(runtime)
    command = [str(runtime / "bin" / "python3"), "-I", "-m", "compileall", "-q", "-j", "2"]
    options = ["--invalidation-mode", "unchecked-hash", str(library)]
    pack = [str(runtime / "bin" / "python3"), "-I", "-B", "-m", "keyhouse.base.process.pack_code"]
    for words in ([*command, *options], pack):
        environment = {"LD_LIBRARY_PATH": str(libraries(runtime))}
        subprocess.run(words, env=environment, check=True, timeout=300)
    return runtime


def sources() -> str:
    """Return a digest of the sources of a runtime: names and modification times."""
    found = sha256(_LOCK.read_bytes())
    for name, source in _OWN.items():
        ends = ("py", "json", "pem")
        files = [each for end in ends for each in (source / name).rglob(f"*.{end}")]
        for path in sorted(files):
            found.update(f"{path} {path.stat().st_mtime_ns}\n".encode())
    return found.hexdigest()


def template() -> str:
    """Return the shipped template, with the runtime's libraries as further trusted files.

    A standalone Python has its libraries below the runtime; its binaries have their paths.
    """
    text = TEMPLATE.read_text(encoding="utf-8")
    of_runtime = '"file:{{ keyhouse_dir }}/",'
    return _replaced(text, of_runtime, f'{of_runtime} "file:{{{{ arch_libdir }}}}/",')


def libraries(runtime: Path) -> Path:
    """Return the directory in place of the distribution's libraries."""
    return runtime.with_name("libraries")


def _copy_libraries(runtime: Path) -> None:
    """Copy the libraries of the interpreter and its modules, except Gramine's own libc."""
    binaries = [runtime / "bin" / "python3", *sorted(runtime.rglob("*.so"))]
    done = subprocess.run(
        ["ldd", *map(str, binaries)], capture_output=True, text=True, check=False, timeout=120
    )
    found = dict(re.findall(r"^\s+(\S+) => (/\S+)", done.stdout, re.MULTILINE))
    listed = subprocess.run(
        ["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True, timeout=60
    )
    for name in _NEEDED:
        known = re.search(
            rf"^\s+{re.escape(name)} .*x86-64.* => (\S+)$", listed.stdout, re.MULTILINE
        )
        if known:
            found.setdefault(name, known[1])
    for name, path in found.items():
        if not _OF_LIBC.match(name):
            shutil.copy(path, libraries(runtime) / name)


def render(
    folder: Path, text: str, values: Mapping[str, object], *, name: str = "keyhouse"
) -> Path:
    """Render the manifest template ``text`` in ``folder``; return the manifest."""
    folder.mkdir(exist_ok=True)
    template, manifest = folder / f"{name}.manifest.template", folder / f"{name}.manifest"
    template.write_text(text, encoding="utf-8")
    given = [f"-D{key}={value}" for key, value in values.items()]
    words = ["gramine-manifest", *given, str(template), str(manifest)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return manifest


def with_amd_collateral(text: str, folder: str) -> str:
    """Return ``text`` with AMD's collateral in ``folder``, as in the how-to."""
    data, amd = '"--data-dir", "/keyhouse-data",', '"--amd-collateral", "/amd-collateral",'
    text = _replaced(text, data, f"{data} {amd}")
    mount = f'{{ path = "/amd-collateral", uri = "file:{folder}" }},'
    text = _replaced(
        text, '  { path = "/keyhouse-data",', f'  {mount}\n  {{ path = "/keyhouse-data",'
    )
    return _replaced(text, 'data_dir }}/"]', f'data_dir }}}}/", "file:{folder}/"]')


def simulated(text: str, *, arguments: Sequence[str] = ()) -> str:
    """Return ``text`` with the simulated platform, which ``gramine-direct`` can run."""
    words = "".join(f'"{word}", ' for word in arguments)
    return _replaced(text, '"--platform", "gramine", ', f'"--platform", "simulation", {words}')


def without_file_checks(text: str) -> str:
    """Return ``text`` without trusted files, to measure the cost of the file checks at a start."""
    trusted = re.sub(r"sgx\.trusted_files = \[.*?\]\n", "", text, flags=re.DOTALL)
    strict, loose = '"strict"', '"allow_all_but_log"'
    return _replaced(
        trusted, f"sgx.file_check_policy = {strict}", f"sgx.file_check_policy = {loose}"
    )


class EnclaveServer(Server):
    """A coordinator under ``gramine-direct``; ``data`` is its directory on the host.

    ``amd``: a directory on the host with AMD's collateral. ``store``: the URL of a database.
    ``wrapper``: words before the command on the host.
    """

    patience = 180.0  # seconds: Gramine checks thousands of digests

    def __init__(
        self,
        data: Path,
        runtime: Path,
        *,
        arguments: Sequence[str] = (),
        amd: Path | None = None,
        store: str = "",
        wrapper: Sequence[str] = (),
    ) -> None:
        super().__init__(data)
        self._wrapper = wrapper
        self._store = {"KEYHOUSE_STORE": store} if store else {}
        self.metrics_port = free_port()
        data.mkdir(mode=0o700, exist_ok=True)
        self._folder = data.parent / f"{data.name}-enclave"
        text = template() if amd is None else with_amd_collateral(template(), str(amd))
        text = simulated(text, arguments=arguments)
        values = {
            "keyhouse_dir": runtime,
            "arch_libdir": libraries(runtime),
            "data_dir": data,
            "isv_svn": 1,
        }
        render(self._folder, text, values)

    def _start(self, log: IO[bytes]) -> "subprocess.Popen[bytes]":
        environment = {
            "PATH": os.environ["PATH"],
            "KEYHOUSE_CLIENT_ADDR": f"127.0.0.1:{self.port}",
            "KEYHOUSE_MESH_ADDR": f"127.0.0.1:{self.mesh_port}",
            "KEYHOUSE_METRICS_ADDR": f"127.0.0.1:{self.metrics_port}",
            **self._store,
        }
        return subprocess.Popen(
            [*self._wrapper, "gramine-direct", "keyhouse"],
            cwd=self._folder,
            env=environment,
            stdout=log,
            stderr=log,
        )


_WORK: Final = {
    "tmpfs": '{ type = "tmpfs", path = "/work" }',
    "encrypted": '{ type = "encrypted", key_name = "default",'
    ' path = "/work", uri = "file:{{ work }}" }',
}
_WORKLOAD: Final = """
libos.entrypoint = "{{ runtime }}/bin/python3"
loader.entrypoint.uri = "file:{{ gramine.libos }}"
loader.log_level = "error"
loader.argv = ["{{ runtime }}/bin/python3", "-I", "-B", "-m", "keyhouse.cli", WORDS
  "--", "{{ runtime }}/bin/python3", "-I", "-B", "/program.py", "word"]
loader.env.LD_LIBRARY_PATH = "/lib:{{ libraries }}"
loader.env.KEYHOUSE_ISOLATED = "measured"
loader.env.MINE = "of the manifest"
fs.root = { type = "tmpfs" }
fs.start_dir = "/work"
fs.mounts = [
  { path = "/lib", uri = "file:{{ gramine.runtimedir() }}" },
  { path = "{{ runtime }}", uri = "file:{{ runtime }}" },
  { path = "{{ libraries }}", uri = "file:{{ libraries }}" },
  { path = "/machine", uri = "file:{{ machine }}" },
  { path = "/program.py", uri = "file:{{ program }}" },
  WORK,
]
fs.insecure__keys.default = "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"
sys.stack.size = "2M"
sys.enable_sigterm_injection = true
sys.experimental__enable_flock = true
sgx.trusted_files = [
  "file:{{ gramine.libos }}", "file:{{ gramine.runtimedir() }}/", "file:{{ runtime }}/",
  "file:{{ libraries }}/", "file:{{ program }}",
]
sgx.allowed_files = ["file:{{ machine }}/"]
"""
"""The manifest of a workload: a launcher executes the program."""


def begin_program(
    folder: Path,
    runtime: Path,
    words: Sequence[str],
    program: str,
    *,
    machine: Path,
    work: str,
) -> "subprocess.Popen[str]":
    """Start ``keyhouse`` with ``words``; ``keyhouse`` then starts ``program``, a Python text.

    The working directory ``/work`` has a file system of the type ``work``. The folder ``machine``
    is mounted. ``stdout`` has the output of both programs.
    """
    folder.mkdir()
    (folder / "work").mkdir()
    (folder / "program.py").write_text(program, encoding="utf-8")
    given = "".join(f'"{word}", ' for word in words)
    text = _WORKLOAD.replace("WORDS", given).replace("WORK,", f"{_WORK[work]},")
    values = {
        "runtime": runtime,
        "libraries": libraries(runtime),
        "machine": machine,
        "program": folder / "program.py",
        "work": folder / "work",
    }
    render(folder, text, values)
    return subprocess.Popen(
        ["gramine-direct", "keyhouse"],
        cwd=folder,
        env={"PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended_program(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Return exit code and unread output of a started program."""
    with process:
        try:
            out, _ = process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return process.returncode, out


def _replaced(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)
