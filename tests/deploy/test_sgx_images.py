"""The images for SGX: what is signed and from where it comes; the tests need no engine."""

import json
import os
import re
import runpy
import subprocess
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
from support.images.containerfile import instructions, sources, stages
from support.process.helm import CHART
from support.process.tool import tool

_ROOT: Final = Path(__file__).parents[2]
_CONTAINER: Final = _ROOT / "deploy" / "container"
_COORDINATOR: Final = _CONTAINER / "gramine" / "Containerfile"
_AESM: Final = _CONTAINER / "aesm" / "Containerfile"
_WORKLOAD: Final = _ROOT / "examples" / "kubernetes" / "Containerfile"
_TEMPLATES: Final = {
    _COORDINATOR: _ROOT / "deploy" / "gramine" / "keyhouse.manifest.template",
    _WORKLOAD: _WORKLOAD.with_name("workload.manifest.template"),
}
_GRAMINE: Final = {
    "gramine.libos": "/usr/lib/x86_64-linux-gnu/gramine/libsysdb.so",
    "gramine.runtimedir()": "/usr/lib/x86_64-linux-gnu/gramine/runtime/glibc",
}

each_image: Final = pytest.mark.parametrize(
    "file", [_COORDINATOR, _AESM, _WORKLOAD], ids=["coordinator", "aesm", "workload"]
)
each_enclave: Final = pytest.mark.parametrize(
    "file", [_COORDINATOR, _WORKLOAD], ids=["coordinator", "workload"]
)


def rendered(file: Path) -> dict[str, Any]:
    """Return the template with its places filled as the Containerfile tells gramine-manifest."""
    (line,) = [rest for _, rest in instructions(file) if "gramine-manifest -D" in rest]
    given = dict(re.findall(r"-D(\w+)=([^ ]+)", line)) | _GRAMINE
    template = _TEMPLATES[file].read_text(encoding="utf-8")
    places = set(re.findall(r"\{\{ (.+?) \}\}", template))
    assert places == set(given)  # each is filled, and nothing is given without effect
    given["isv_svn"] = "1"
    return tomllib.loads(re.sub(r"\{\{ (.+?) \}\}", lambda found: given[found[1]], template))


@each_image
def test_the_base_is_named_by_who_builds_and_no_instruction_fetches(file: Path) -> None:
    found = instructions(file)
    base = "KEYHOUSE_IMAGE" if file == _WORKLOAD else "DEBIAN_IMAGE"
    assert found[0] == ("ARG", base)  # without a default
    stages = [rest.split() for name, rest in found if name == "FROM"]
    named = {stage[2] for stage in stages if len(stage) > 1}
    assert {stage[0] for stage in stages} <= {f"${{{base}}}", *named}
    assert "ADD" not in dict(found)
    runs = [rest for name, rest in found if name == "RUN"]
    assert all(isinstance(json.loads(rest[rest.index("[") :]), list) for rest in runs)


@each_image
def test_an_image_gets_only_what_is_named(file: Path) -> None:
    ignored = file.with_name("Containerfile.dockerignore").read_text(encoding="utf-8").split("\n")
    assert {line.removeprefix("!") for line in ignored if line.startswith("!")} == sources(file)
    given = [source for source in sources(file) if not source.startswith("build/")]
    assert all((_ROOT / source).exists() for source in given)


@each_enclave
def test_the_key_that_signs_is_in_no_layer(file: Path) -> None:
    naming = [rest for _, rest in instructions(file) if "signing-key" in rest]
    (signing,) = naming
    assert signing.startswith("--mount=type=secret,id=signing-key ")
    assert "--key /run/secrets/signing-key" in signing
    made = instructions(file)
    last = max(number for number, (name, _) in enumerate(made) if name == "FROM")
    copied = [rest for name, rest in made[last:] if name == "COPY"]
    assert copied
    assert all(rest.startswith("--from=enclave ") for rest in copied)


@each_image
def test_packages_are_trusted_by_a_keyring_that_was_checked(file: Path) -> None:
    found = [rest for _, rest in instructions(file)]
    sources = [rest for rest in found if "sources.list.d" in rest]
    assert len(sources) == (0 if file == _WORKLOAD else 1)
    for rest in sources:
        (keyring,) = re.findall(r"signed-by=(/etc/apt/keyrings/[\w.-]+)\]", rest)
        name = Path(keyring).name
        assert f"--from=keys {name} {keyring}" in found
        assert any(f"./check-keys {name} $" in run for run in found)
    assert "trusted=yes" not in file.read_text(encoding="utf-8")


def test_the_coordinator_that_is_signed_keeps_every_rule_of_the_lint() -> None:
    lint = runpy.run_path(str(_TEMPLATES[_COORDINATOR].with_name("lint.py")))
    manifest = rendered(_COORDINATOR)
    assert lint["problems"](manifest) == []
    # The state where the chart makes its directory, and backs it up.
    (state,) = manifest["sgx"]["allowed_files"]
    assert state == "file:/data/state/"
    for template in ("statefulset.yaml", "backup.yaml"):
        assert "/data/state" in (CHART / "templates" / template).read_text(encoding="utf-8")


def test_the_workload_that_is_signed_is_closed() -> None:
    manifest = rendered(_WORKLOAD)
    sgx = manifest["sgx"]
    assert (sgx["debug"], sgx["file_check_policy"]) == (False, "strict")
    assert "allowed_files" not in sgx
    assert "insecure__" not in json.dumps(manifest)
    assert sgx["isvprodid"] != rendered(_COORDINATOR)["sgx"]["isvprodid"]
    passed = [name for name, value in manifest["loader"]["env"].items() if "passthrough" in value]
    assert passed == ["KEYHOUSE_MARBLE_COORDINATOR_ADDR", "KEYHOUSE_MARBLE_DNS_NAMES"]


def test_only_the_coordinators_wheels_are_where_the_enclave_reads() -> None:
    found = stages(_COORDINATOR)
    copied = [rest for name, rest in (*found["runtime"], *found[""]) if name == "COPY"]
    assert copied == [
        "--from=coordinator /opt/keyhouse /opt/keyhouse",
        "--from=commands /opt/keyhouse-commands /opt/keyhouse-commands",
        "--chmod=0755 build/measured /opt/keyhouse/measured",
        "--from=enclave /opt/enclave/keyhouse.manifest.sgx /opt/enclave/keyhouse.sig /opt/enclave/",
    ]
    assert all("/opt/keyhouse-commands" not in uri for uri in _uris(_COORDINATOR))
    for stage, name, lock in (
        ("coordinator", "keyhouse-coordinator", "locks/coordinator.txt"),
        ("workload", "keyhouse-launcher", "locks/launcher.txt"),
        ("commands", "keyhouse", "locks/people.txt"),
    ):
        runs = [json.loads(rest) for word, rest in found[stage] if word == "RUN"]
        assert [words[-1] for words in runs if "pip" in words] == [lock, name]
        assert runs[-1][-2:] == [name, lock]
    assert ("COPY", "--from=workload /opt/keyhouse /opt/keyhouse") in found["launcher"]


def _uris(file: Path) -> list[str]:
    return [str(uri) for uri in rendered(file)["sgx"]["trusted_files"]]


def test_both_manifests_are_checked_with_the_lock_of_the_coordinator() -> None:
    runs = " ".join(rest for name, rest in stages(_COORDINATOR)["enclave"] if name == "RUN")
    for manifest in ("keyhouse.manifest", "keyhouse.manifest.sgx"):
        assert f"python3 lint.py --lock coordinator.txt {manifest}" in runs


def test_the_image_runs_gramine_as_nobody() -> None:
    stage = dict(instructions(_COORDINATOR)[-10:])
    assert stage["USER"] == "65532:65532"
    assert json.loads(stage["ENTRYPOINT"]) == ["gramine-sgx", "keyhouse"]
    assert "CMD" not in dict(instructions(_COORDINATOR))  # the arguments are measured
    environment = [rest for name, rest in instructions(_COORDINATOR) if name == "ENV"]
    assert environment[-1].startswith("PATH=/opt/keyhouse-commands/bin:")
    assert dict(instructions(_AESM))["USER"] == "65532:65532"


@pytest.fixture(scope="module")
def keyring(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Return a keyring of two keys, and their fingerprints."""
    home = tmp_path_factory.mktemp("gnupg")
    home.chmod(0o700)
    program = tool("gpg")

    def gpg(*words: str) -> str:
        command = [program, "--batch", "--passphrase=", "--homedir", str(home), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    try:
        for name in ("old", "new"):
            gpg("--quick-gen-key", name, "ed25519", "sign")
        gpg("--output", str(home / "both.gpg"), "--export")
        listed = gpg("--with-colons", "--list-keys")
    finally:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=True)
    return home / "both.gpg", re.findall(r"(?m)^fpr:+([0-9A-F]{40}):", listed)


def test_a_keyring_with_another_key_is_refused(keyring: tuple[Path, list[str]]) -> None:
    file, (one, other) = keyring

    def check(path: Path, *keys: str) -> subprocess.CompletedProcess[str]:
        command = [str(_CONTAINER / "check-keys"), str(path), *keys]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert check(file, one, other).returncode == 0
    for given in ([], [one], [other], [one, other[:-8]], [one, other.lower()]):
        refused = check(file, *given)
        assert refused.returncode == 1
        assert "which is not named" in refused.stderr
    assert check(_ROOT / "README.md", one).returncode != 0
    assert check(Path(os.devnull), one).returncode != 0


def test_a_standalone_python_needs_no_library_of_the_system(tmp_path: Path) -> None:
    python, directory = Path("/usr/bin/python3"), tmp_path / "runtime"
    if not Path("/usr/lib/python3/dist-packages").is_dir():
        pytest.skip("the Python of the system is not Debian's")
    script = _CONTAINER / "gramine" / "standalone.py"
    directory.mkdir()
    subprocess.run([python, "-I", "-B", script, directory], check=True)
    told = subprocess.run(
        [directory / "bin" / "python3", "-I", "-B", "-c", _LIBRARIES],
        env={"LD_LIBRARY_PATH": str(directory / "lib")},
        check=True,
        capture_output=True,
        text=True,
    )
    loaded = [Path(line) for line in told.stdout.splitlines()]
    assert directory / "lib" / "libssl.so.3" in loaded
    system = {path.name.partition(".so")[0] for path in loaded if directory not in path.parents}
    assert system <= {"libc", "libm", "ld-linux-x86-64"}


_LIBRARIES: Final = """
import ctypes, hashlib, lzma, sqlite3, ssl, sys, uuid
assert sys.prefix != "/usr"
for line in open("/proc/self/maps"):
    if "r-xp" in line and ".so" in line: print(line.split()[-1])
"""
