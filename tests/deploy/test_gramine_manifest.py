"""The Gramine manifest keeps the security rules, and each rule catches its violation."""

import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from support.process.gramine import with_amd_collateral

from keyhouse.server.process.settings import SETTINGS, read_settings

FOLDER: Final = Path(__file__).parent.parent.parent / "deploy" / "gramine"
VALUES: Final = {
    "gramine.libos": "/usr/lib/x86_64-linux-gnu/gramine/libsysdb.so",
    "gramine.runtimedir()": "/usr/lib/x86_64-linux-gnu/gramine/runtime/glibc",
    "keyhouse_dir": "/opt/keyhouse",
    "arch_libdir": "/lib/x86_64-linux-gnu",
    "data_dir": "/var/lib/keyhouse",
    "isv_svn": "1",
}

lint = runpy.run_path(str(FOLDER / "lint.py"))
problems: Callable[[dict[str, Any]], list[str]] = lint["problems"]


def rendered() -> str:
    """Return the template with its places filled as gramine-manifest fills them."""
    template = (FOLDER / "keyhouse.manifest.template").read_text(encoding="utf-8")
    return re.sub(r"\{\{ (.+?) \}\}", lambda found: VALUES[found[1]], template)


def with_amd() -> str:
    """Return it with AMD's collateral, as the how-to has it."""
    template = (FOLDER / "keyhouse.manifest.template").read_text(encoding="utf-8")
    text = with_amd_collateral(template, "/etc/keyhouse-amd")
    return re.sub(r"\{\{ (.+?) \}\}", lambda found: VALUES[found[1]], text)


def parsed(text: str) -> dict[str, Any]:
    return tomllib.loads(text)


def run_lint(*paths: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, str(FOLDER / "lint.py"), *map(str, paths)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_rendered_template_keeps_every_rule(tmp_path: Path) -> None:
    assert problems(parsed(rendered())) == []
    file = tmp_path / "keyhouse.manifest"
    file.write_text(rendered(), encoding="utf-8")
    code, said = run_lint(file)  # the runtime is not on this machine
    assert code == 1
    assert {line.partition("; ")[2] for line in said.splitlines()} == {
        "it does not exist on this machine"
    }


def test_collateral_of_amd_may_come_from_the_host_where_it_is_named() -> None:
    text = with_amd()
    assert problems(parsed(text)) == []
    page = (FOLDER.parents[1] / "docs" / "how-to" / "deploy-on-sgx.md").read_text("utf-8")
    added = [line.strip() for line in text.splitlines() if line not in rendered().splitlines()]
    assert len(added) == 3
    for line in added:
        shown = line.replace(VALUES["data_dir"], "{{ data_dir }}")
        assert shown.removeprefix('"--platform", "gramine", ') in page
    for place, other in (
        ('"--amd-collateral", "/amd-collateral",', ""),
        ('"file:/etc/keyhouse-amd/"]', '"file:/opt/"]'),
        ('"file:/etc/keyhouse-amd/"]', '"file:/etc/keyhouse-amd"]'),
        ('"file:/etc/keyhouse-amd/"]', '"file:/etc/keyhouse-amd/", "file:/etc/"]'),
    ):
        assert place in text
        [found] = problems(parsed(text.replace(place, other)))
        assert found.startswith("sgx.allowed_files: must ")


def test_a_signed_manifest_with_digests_keeps_every_rule() -> None:
    manifest = parsed(rendered())
    manifest["sgx"]["trusted_files"] = [
        {"uri": uri, "sha256": "0a" * 32} for uri in manifest["sgx"]["trusted_files"]
    ]
    assert problems(manifest) == []
    manifest["sgx"]["trusted_files"][1]["sha256"] = "0a" * 31
    assert problems(manifest) == ["sgx.trusted_files[1].sha256: must be 64 hex digits"]


def test_the_template_itself_is_not_rendered(tmp_path: Path) -> None:
    template = FOLDER / "keyhouse.manifest.template"
    code, said = run_lint(template)
    assert (code, "render it first" in said) == (2, True)
    manifest = parsed(rendered().replace("/opt/keyhouse", "{{ keyhouse_dir }}"))
    assert any(found.endswith("is not rendered") for found in problems(manifest))
    assert run_lint(tmp_path / "missing")[0] == 2
    assert run_lint()[0] == 2


def test_what_is_found_is_printed_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / "keyhouse.manifest"
    file.write_text(rendered().replace("sgx.debug = false", "sgx.debug = true"), encoding="utf-8")
    code, said = run_lint(file)
    assert code == 1
    assert said.startswith(f"{file}: sgx.debug: must be false")


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("sgx.debug", "sgx.debug = false", "sgx.debug = true"),
        ("sgx.debug", "sgx.debug = false", ""),
        ("sgx.debug", "sgx.debug = false", "sgx.debug = 0"),
        ("sgx.remote_attestation", '"dcap"', '"none"'),
        ("sgx.remote_attestation", '"dcap"', '"epid"'),
        ("sgx.file_check_policy", '"strict"', '"allow_all_but_log"'),
        ("sgx.file_check_policy", 'sgx.file_check_policy = "strict"', ""),
        ("sgx.isvprodid", "isvprodid = 1", "isvprodid = 0"),
        ("sgx.isvprodid", "isvprodid = 1", "isvprodid = true"),
        ("sgx.isvsvn", "sgx.isvsvn = 1", "sgx.isvsvn = 65536"),
        ("sgx.isvsvn", "sgx.isvsvn = 1", ""),
        ("sgx.enclave_size", '"1G"', '"256M"'),
        ("sgx.enclave_size", '"1G"', '"much"'),
        ("sgx.max_threads", "max_threads = 32", "max_threads = 4"),
        ("sgx.profile.enable", "sgx.edmm_enable = false", 'sgx.profile.enable = "main"'),
        ("sgx.seal_key", "sgx.edmm_enable = false", 'sgx.seal_key.flags_mask = "0x0"'),
        (
            "sgx.insecure__rpc_thread_num",
            "sgx.edmm_enable = false",
            "sgx.insecure__rpc_thread_num = 4",
        ),
        (
            "loader.insecure__use_cmdline_argv",
            "sgx.debug",
            "loader.insecure__use_cmdline_argv = true\nsgx.debug",
        ),
        (
            "loader.insecure__use_host_env",
            "sgx.debug",
            "loader.insecure__use_host_env = true\nsgx.debug",
        ),
        ("fs.insecure__keys", "sgx.debug", 'fs.insecure__keys.default = "00"\nsgx.debug'),
        ("loader.argv_src_file", "sgx.debug", 'loader.argv_src_file = "file:argv"\nsgx.debug'),
        ("loader.env_src_file", "sgx.debug", 'loader.env_src_file = "file:env"\nsgx.debug'),
        ("loader.log_level", '"error"', '"trace"'),
        ("libos.entrypoint", 'libos.entrypoint = "/opt', 'libos.entrypoint = "/var'),
        ("loader.argv", '"-I", ', ""),
        ("loader.argv", '"-B", ', ""),
        ("loader.argv", '"keyhouse.server"', '"http.server"'),
        ("loader.argv", '"gramine", "--data-dir"', '"simulation", "--data-dir"'),
        ("loader.argv", '"gramine", "--data-dir"', '"auto", "--data-dir"'),
        ("loader.argv", '"--platform", "gramine", ', ""),
        ("loader.argv", '"--data-dir"', '"--platform", "simulation", "--data-dir"'),
        ("loader.argv", '"--data-dir"', '"--platform=simulation", "--data-dir"'),
        ("loader.argv", '"--data-dir"', '"--confirm-clock", "--data-dir"'),
        ("loader.argv", '"--data-dir"', '1, "--data-dir"'),
        ("loader.env.LD_PRELOAD", "sgx.debug", 'loader.env.LD_PRELOAD = "x.so"\nsgx.debug'),
        ("loader.env.PYTHONPATH", "sgx.debug", 'loader.env.PYTHONPATH = "/tmp"\nsgx.debug'),
        ("loader.env.OE_SIMULATION", "sgx.debug", 'loader.env.OE_SIMULATION = "1"\nsgx.debug'),
        (
            "loader.env.OPENSSL_CONF",
            "sgx.debug",
            "loader.env.OPENSSL_CONF = { passthrough = true }\nsgx.debug",
        ),
        ("loader.env.LD_LIBRARY_PATH", '"/lib:/lib/x86_64-linux-gnu"', "{ passthrough = true }"),
        ("loader.env.KEYHOUSE_ISOLATED", '= "measured"', "= { passthrough = true }"),
        (
            "loader.env.KEYHOUSE_ISOLATED",
            '= "measured"',
            '= { value = "measured", passthrough = 1 }',
        ),
        ("loader.env.KEYHOUSE_ISOLATED", '= "measured"', "= 1"),
        ("loader.env.KEYHOUSE_ISOLATED", '= "measured"', '= "1"'),
        ("loader.env.KEYHOUSE_ISOLATED", 'loader.env.KEYHOUSE_ISOLATED = "measured"', ""),
        ("loader.env.KEYHOUSE_LOG_LEVEL", "LOG_LEVEL = { passthrough = true }", "LOG_LEVEL = {}"),
        ("fs.mounts[0].path", 'path = "/tmp"', 'path = "/dev/attestation"'),
        ("fs.mounts[0].path", 'path = "/tmp"', 'path = "//dev"'),
        ("fs.mounts[0].path", 'path = "/tmp"', 'path = "/tmp/../dev"'),
        ("fs.mounts[0].path", 'path = "/tmp"', 'path = "/"'),
        ("sgx.allowed_files", '["file:/var/lib/keyhouse/"]', '["file:/var/lib/keyhouse"]'),
        ("sgx.allowed_files", '["file:/var/lib/keyhouse/"]', '["file:/"]'),
        ("sgx.allowed_files", '["file:/var/lib/keyhouse/"]', '["file:/opt/"]'),
        ("sgx.allowed_files", '["file:/var/lib/keyhouse/"]', '["file:/opt/keyhouse/data/"]'),
        ("sgx.allowed_files", '["file:/var/lib/keyhouse/"]', '["file:/a/", "file:/b/"]'),
        ("sgx.allowed_files", 'sgx.allowed_files = ["file:/var/lib/keyhouse/"]', ""),
        ("sgx.trusted_files", "sgx.trusted_files = [", "sgx.unknown = ["),
        ("sgx.trusted_files", "libstdc++.so.6", "libstdc++.so.5"),
        ("sgx.trusted_files", "libgcc_s.so.1", "libgcc.so.1"),
        ("sys.stack.size", 'sys.stack.size = "2M"', ""),
        ("sys.stack.size", 'sys.stack.size = "2M"', 'sys.stack.size = "256K"'),
        ("sys.enable_sigterm_injection", "sigterm_injection = true", "sigterm_injection = false"),
        ("sys.disallow_subprocesses", "sys.disallow_subprocesses = true", ""),
        ("sys.experimental__enable_flock", "enable_flock = true", "enable_flock = 1"),
        ("fs.root.type", 'fs.root = { type = "tmpfs" }', ""),
        ("fs.root.type", 'fs.root = { type = "tmpfs" }', 'fs.root.uri = "file:/"'),
        (
            "fs.mounts[5].path",
            'uri = "file:/var/lib/keyhouse" },',
            'uri = "file:/var/lib/keyhouse" },\n  { type = "tmpfs", path = "/opt" },',
        ),
        (
            "fs.mounts[4].type",
            '{ path = "/keyhouse-data",',
            '{ type = "encrypted", key_name = "_sgx_mrenclave", path = "/keyhouse-data",',
        ),
        (
            "fs.mounts[4].type",
            '{ path = "/keyhouse-data",',
            '{ type = "encrypted", enable_recovery = true, path = "/keyhouse-data",',
        ),
        (
            "fs.mounts[4].type",
            '{ path = "/keyhouse-data",',
            '{ type = "tmpfs", path = "/keyhouse-data",',
        ),
        (
            "fs.mounts[4].type",
            '{ path = "/keyhouse-data",',
            '{ type = "untrusted_shm", path = "/keyhouse-data",',
        ),
        (
            "fs.mounts[5].type",
            'uri = "file:/var/lib/keyhouse" },',
            'uri = "file:/var/lib/keyhouse" },\n  { type = "tmpfs", path = "/keyhouse-data/log" },',
        ),
        (
            "fs.mounts[5].type",
            'uri = "file:/var/lib/keyhouse" },',
            'uri = "file:/var/lib/keyhouse" }, { type = "encrypted", path = "/other" },',
        ),
        ("fs.mounts", '{ path = "/keyhouse-data",', '{ path = "/elsewhere",'),
        ("fs.mounts", '"--data-dir", "/keyhouse-data"', '"--data-dir=/elsewhere"'),
        ("loader.env.MALLOC_ARENA_MAX", 'ARENA_MAX = "1"', "ARENA_MAX = { passthrough = true }"),
    ],
)
def test_each_rule_catches_its_violation(key: str, old: str, new: str) -> None:
    assert rendered().count(old) == 1 or old == "sgx.debug"
    found = problems(parsed(rendered().replace(old, new, 1)))
    assert key in {line.split(":")[0] for line in found}, found


def test_an_empty_manifest_breaks_the_rules() -> None:
    assert len(problems({})) > 5


def test_the_host_may_choose_the_variables_of_host_settings_and_no_others() -> None:
    of_the_host = {name for each in SETTINGS if each.kind == "host" for name in each.variables}
    measured = {name for each in SETTINGS if each.kind != "host" for name in each.variables}
    assert lint["PASSED_THROUGH"] <= of_the_host
    assert measured == set()
    assert set(parsed(rendered())["loader"]["env"]) <= of_the_host | {
        "LD_LIBRARY_PATH",
        "KEYHOUSE_ISOLATED",
        "MALLOC_ARENA_MAX",
    }


def test_the_fixed_arguments_are_ones_that_serve_takes() -> None:
    words = parsed(rendered())["loader"]["argv"]
    settings = read_settings(words[words.index("keyhouse.server") + 1 :], {})
    assert (settings.platform, settings.data_dir) == ("gramine", Path("/keyhouse-data"))
