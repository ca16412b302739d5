"""The trial of a coordinator: start, quote, seal, restart, recovery and memory.

The trial uses a real coordinator process over a new state:

1. Start the process, verify its quote, set a manifest, and write a random secret.
2. Stop and start the process. The process has to open the sealed state and return the secret.
3. Stop the process, remove ``sealed_key``, and start it in recovery mode. A recovery key has to
   restore the state with the same root and secret.
4. Repeat steps 1 and 2 with the other sealing policy.

The keys and the secret exist only for the trial.
"""

import hmac
import json
import secrets
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from keyhouse.attestation import Collateral
from keyhouse.attestation.platforms.platform import SealPolicy
from keyhouse.base.secret import Secret
from keyhouse.cli.attest.quote_explanation import Explanation, QuoteTrust, explain_quote
from keyhouse.cli.dev.folder import USER, Folder, user_in
from keyhouse.cli.doctor.hardware.attempts import StepFailedError, as_section, attempt, worst
from keyhouse.cli.doctor.hardware.process import CoordinatorProcess, Launch, elapsed
from keyhouse.cli.doctor.hardware.quotes import quote_section
from keyhouse.cli.doctor.hardware.report import (
    MemorySection,
    QuoteSection,
    RecoverySection,
    RestartSection,
    SealPolicySection,
    SealSection,
    Section,
    StartSection,
    Trial,
)

if TYPE_CHECKING:
    from keyhouse.client import ClientIdentity, Coordinator, TrustedCoordinator

_RECOVERING, _RUNNING = 1, 3  # codes of the status
_KEY_BITS: Final = 3072  # a usual size of recovery keys
_EXPONENT: Final = 65537  # F4, the usual exponent
_SECRET: Final = "trial"  # noqa: S105 the name, not the value
_HOLDER: Final = "holder"
_SEALED_KEY: Final = "sealed_key"


class _Memory(NamedTuple):
    """The coordinator's resident memory in KiB: after its start, and after the first secret.

    None means an unknown value.
    """

    before: int | None
    after: int | None


class _ValuesBefore(NamedTuple):
    """The values that a restarted coordinator must have again: root (DER) and secret ``value``.

    ``share`` is the encrypted share for the recovery.
    """

    root: bytes
    value: bytes
    share: bytes


class _Start(NamedTuple):
    """The result of a start of the coordinator.

    ``proven`` is the verified coordinator; None if the start or the verification failed.
    """

    section: Section
    proven: "TrustedCoordinator | None"
    times: StartSection


class CoordinatorTrial:
    """A trial of the coordinator that ``launch`` starts. ``scratch``: a temporary folder."""

    def __init__(self, launch: Launch, scratch: Path) -> None:
        self._launch = launch
        self._log = scratch / "coordinator.log"
        self._folder = Folder(scratch)
        self._holder = rsa.generate_private_key(_EXPONENT, _KEY_BITS)

    def run(self) -> tuple[QuoteSection, Trial]:
        """Run all steps; return their results. The state directory is empty afterwards."""
        quote, start, restart, recovery, memory, product = self._whole()
        unique = self._sealed(SealPolicy.UNIQUE_KEY)
        policies = (product, unique)
        seal = as_section(SealSection, worst(policies), policies=policies)
        trial = Trial(
            platform=self._launch.platform,
            seal=seal,
            start=start,
            restart=restart,
            recovery=recovery,
            memory=memory,
        )
        return quote, trial

    def _whole(
        self,
    ) -> tuple[
        QuoteSection,
        StartSection,
        RestartSection,
        RecoverySection,
        MemorySection,
        SealPolicySection,
    ]:
        """Try start, restart and recovery with the policy ``ProductKey``; return the results."""
        policy = SealPolicy.PRODUCT_KEY
        try:
            with self._process() as process:
                start = self._start(process, "starting a coordinator", {})
                quote = _quote_of(start, self._launch)
                prepared, kept = self._prepare(process, policy, start)
                memory = as_section(
                    MemorySection,
                    prepared,
                    rss_before_kib=kept[1].before if kept else None,
                    rss_after_kib=kept[1].after if kept else None,
                )
                stop_ms = process.stop()
            values = kept[0] if kept else None
            with self._process() as process:
                again = self._start(process, "starting the coordinator again", {"start": prepared})
                sealed = self._opened(process, policy, again.section, values)
            restart = as_section(
                RestartSection,
                again.section,
                serving_ms=again.times.serving_ms,
                first_answer_ms=again.times.first_answer_ms,
                stop_ms=stop_ms if again.section.outcome != "skipped" else None,
            )
            recovery = self._recovered(prepared, values)
        finally:
            self._clear()
        return quote, start.times, restart, recovery, memory, sealed

    def _sealed(self, policy: SealPolicy) -> SealPolicySection:
        """Start and restart a coordinator with the sealing policy ``policy``.

        The result states whether the restarted coordinator opened its sealed state.
        """
        try:
            with self._process() as process:
                start = self._start(process, f"starting a coordinator for {policy}", {})
                prepared, kept = self._prepare(process, policy, start)
            with self._process() as process:
                again = self._start(process, "starting the coordinator again", {"start": prepared})
                return self._opened(process, policy, again.section, kept[0] if kept else None)
        finally:
            self._clear()

    def _process(self) -> CoordinatorProcess:
        return CoordinatorProcess(self._launch, self._log)

    def _start(
        self, process: CoordinatorProcess, text: str, needs: Mapping[str, Section]
    ) -> _Start:
        section, serving = attempt(text, process.start, needs)

        def answer() -> tuple["TrustedCoordinator", int]:
            with process.connect() as coordinator:
                coordinator.status()
                return coordinator.trusted, process.age()

        answered, found = attempt("verifying its quote", answer, {"start": section})
        proven, first = found if found is not None else (None, None)
        times = as_section(StartSection, section, serving_ms=serving, first_answer_ms=first)
        return _Start(worst((section, answered)), proven, times)

    def _prepare(
        self, process: CoordinatorProcess, policy: SealPolicy, start: _Start
    ) -> tuple[Section, tuple[_ValuesBefore, _Memory] | None]:
        user = user_in(self._folder)

        def work() -> tuple[_ValuesBefore, _Memory]:
            before = process.resident_kib()
            with process.connect() as coordinator:
                shares = coordinator.set_manifest(self._manifest(policy, user))
                root = coordinator.trusted.root_der
            value = secrets.token_bytes(32)
            with process.connect(user) as coordinator:
                _write(coordinator, value)
                _require_secret(coordinator, value)
            return _ValuesBefore(root, value, shares[_HOLDER]), _Memory(
                before, process.resident_kib()
            )

        text = f"setting a manifest with {policy}, and writing a secret"
        return attempt(text, work, {"start": start.section})

    def _opened(
        self,
        process: CoordinatorProcess,
        policy: SealPolicy,
        restart: Section,
        kept: _ValuesBefore | None,
    ) -> SealPolicySection:
        def work() -> None:
            assert kept is not None  # noqa: S101 a step needs a passed preparation
            self._require(process, kept)

        section, _ = attempt("reading the secret from the sealed state", work, {"restart": restart})
        return as_section(SealPolicySection, section, policy=policy.value)

    def _recovered(self, prepared: Section, kept: _ValuesBefore | None) -> RecoverySection:
        with self._process() as process:
            if prepared.outcome == "passed":
                (self._launch.state / _SEALED_KEY).unlink(missing_ok=True)
            text = "starting the coordinator without its sealed key"
            start = self._start(process, text, {"start": prepared})

            def work() -> int:
                assert kept is not None  # noqa: S101 a step needs a passed preparation
                return self._recover(process, kept)

            section, time_ms = attempt("recovering its state", work, {"restart": start.section})
        return as_section(
            RecoverySection,
            section,
            serving_ms=start.times.serving_ms,
            first_answer_ms=start.times.first_answer_ms,
            recovery_ms=time_ms,
        )

    def _recover(self, process: CoordinatorProcess, kept: _ValuesBefore) -> int:
        from keyhouse.client import HolderKey

        pem = self._holder.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        with process.connect() as coordinator:
            _require_code(coordinator, _RECOVERING)
            began = time.monotonic()
            progress = coordinator.recover_with(HolderKey(Secret(pem)), kept.share, kept.root)
            time_ms = elapsed(began)
        if progress.remaining:
            raise StepFailedError(
                f"the coordinator needs {progress.remaining} more shares, expected 0"
            )
        self._require(process, kept)
        return time_ms

    def _require(self, process: CoordinatorProcess, kept: _ValuesBefore) -> None:
        """Raise ``StepFailedError`` unless the coordinator has root and secret of ``kept``.

        ``process`` is the process of the coordinator.
        """
        with process.connect(user_in(self._folder)) as coordinator:
            _require_code(coordinator, _RUNNING)
            if not hmac.compare_digest(coordinator.trusted.root_der, kept.root):
                raise StepFailedError(
                    "the coordinator has a root that differs from the root before its restart"
                )
            _require_secret(coordinator, kept.value)

    def _manifest(self, policy: SealPolicy, user: "ClientIdentity") -> bytes:
        public = self._holder.public_key().public_bytes(
            Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        )
        content = {
            # No workload joins: nobody has this measurement.
            "Packages": {"app": {"UniqueID": secrets.token_hex(32)}},
            "Marbles": {"web": {"Package": "app"}},
            "Secrets": {_SECRET: {"Type": "plain", "UserDefined": True}},
            "Users": {USER: {"Certificate": _pem_of(user), "Roles": ["all"]}},
            "Roles": {
                "all": {
                    "ResourceType": "Secrets",
                    "ResourceNames": [_SECRET],
                    "Actions": ["ReadSecret", "WriteSecret"],
                }
            },
            "RecoveryKeys": {_HOLDER: public.decode("ascii")},
            "Config": {"SealMode": policy.value},
        }
        return json.dumps(content).encode()

    def _clear(self) -> None:
        """Empty the state directory. Before the trial, this directory was empty, too."""
        for each in self._launch.state.iterdir() if self._launch.state.exists() else ():
            if each.is_dir() and not each.is_symlink():
                rmtree(each)
            else:
                each.unlink()


def _quote_of(start: _Start, launch: Launch) -> QuoteSection:
    """Return the report's section about the quote of the coordinator that ``start`` verified.

    The function verifies the quote again, with the trust of ``launch``, to get all its values.
    """
    if start.proven is None:
        return as_section(QuoteSection, start.section)
    quote = start.proven.quote
    # A PCCS may fail to answer this time.
    section, found = attempt("reading its quote", lambda: quote_section(_explained(quote, launch)))
    return found if found is not None else as_section(QuoteSection, section)


def _explained(quote: bytes, launch: Launch) -> Explanation:
    trust = launch.trust()
    source: Collateral | Callable[[bytes], Collateral] = trust.collateral
    collateral = source if isinstance(source, Collateral) else source(quote)
    roots = QuoteTrust(trust.root_ca_der, collateral, {}, None)
    return explain_quote(quote, roots, datetime.now(UTC), None)


def _pem_of(user: "ClientIdentity") -> str:
    return user.certificate.read_text(encoding="ascii")


def _write(coordinator: "Coordinator", value: bytes) -> None:
    from keyhouse.client import SecretUpload

    coordinator.write_secrets({_SECRET: SecretUpload(key=Secret(value))})


def _require_code(coordinator: "Coordinator", code: int) -> None:
    found = coordinator.status()
    if found.code != code:
        raise StepFailedError(
            f"the coordinator has the status {found.code} ({found.message}), expected {code}"
        )


def _require_secret(coordinator: "Coordinator", value: bytes) -> None:
    private = coordinator.secrets([_SECRET])[_SECRET].private
    if private is None or not hmac.compare_digest(private.reveal(), value):
        raise StepFailedError(
            "the coordinator returned a secret that differs from the secret of the trial"
        )
