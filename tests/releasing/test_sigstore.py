"""A release without a verified Sigstore bundle fails, and leaves no signature.

The programs named ``sigstore`` stand for sigstore-python, which needs a network.
"""

from pathlib import Path

import pytest
from releasing.outputs import withdraw_signatures
from releasing.sigstore import Sigstore, sign_with_sigstore

from keyhouse.cli.release.sums import BUNDLE, NOTE, SUMS

_EXPECTED = Sigstore("releases@example.com", "https://id.example")
_NAMED = "--cert-identity releases@example.com --cert-oidc-issuer https://id.example"


def _install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str) -> Path:
    """Put a program ``sigstore`` of these shell lines on PATH; return the folder of a release."""
    folder, release = tmp_path / "programs", tmp_path / "release"
    folder.mkdir()
    release.mkdir()
    (folder / "sigstore").write_text(f"#!/bin/sh\n{lines}\n", encoding="utf-8")
    (folder / "sigstore").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    (release / SUMS).write_bytes(b"")
    return release


def test_the_bundle_is_verified_as_users_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = f'echo "$@" >>{tmp_path}/words; [ "$1" = sign ] && echo "{{}}" >"$3"; exit 0'
    release = _install(tmp_path, monkeypatch, lines)
    sign_with_sigstore(release, _EXPECTED)
    bundle, sums = release / BUNDLE, release / SUMS
    assert (tmp_path / "words").read_text("utf-8").splitlines() == [
        f"sign --bundle {bundle} {sums}",
        f"verify identity --bundle {bundle} {_NAMED} {sums}",
    ]
    assert bundle.is_file()


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ("exit 1", "the release has no Sigstore bundle: sigstore sign ended with 1,"),
        ("exit 0", "sigstore sign ended with 0 and wrote no bundle"),
        (
            '[ "$1" = sign ] && echo "{}" >"$3" && exit 0; exit 1',
            "the release has no Sigstore bundle: sigstore verify ended with 1,",
        ),
    ],
    ids=["cannot-sign", "no-bundle", "another-identity"],
)
def test_a_release_without_a_verified_bundle_fails(
    lines: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = _install(tmp_path, monkeypatch, lines)
    with pytest.raises(RuntimeError, match=fault):
        sign_with_sigstore(release, _EXPECTED)


def test_a_failed_release_keeps_no_signature(tmp_path: Path) -> None:
    for name in (SUMS, NOTE, BUNDLE):
        (tmp_path / name).write_bytes(b"")
    withdraw_signatures(tmp_path)
    withdraw_signatures(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [SUMS]
