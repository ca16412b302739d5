"""Describe the people and code with access to the root key under each manifest of a deployment."""

from collections.abc import Iterator

import msgspec

from keyhouse.manifest import Manifest, Package, Replicas


class RootKeyAccess(msgspec.Struct, frozen=True):
    """The parts of a manifest that control access to the data key, and so to the root key."""

    # The public recovery keys by name.
    holders: dict[str, bytes]
    # The number of shares that yield the data key, or 0 without holders.
    threshold: int
    # The code of further coordinators that receive the data key.
    code: tuple[str, ...]
    # The accepted TCB statuses of platforms, besides UpToDate.
    statuses: tuple[str, ...]
    # None means any platform, or no further coordinator.
    platforms: tuple[str, ...] | None

    @property
    def holders_text(self) -> str:
        """The holders, and the number of shares that yield the data key."""
        names = ", ".join(sorted(self.holders))
        return f"{self.threshold} of {len(self.holders)}: {names}" if names else "none"

    @property
    def code_text(self) -> str:
        """The code of further coordinators that receive the data key."""
        return ", ".join(self.code) or "none"


def root_key_access(manifest: Manifest) -> RootKeyAccess:
    """Return the people and code with access to the root key while ``manifest`` is in force."""
    holders = {name: key.public_key for name, key in manifest.recovery_keys.items()}
    replicas = manifest.config.replicas
    return RootKeyAccess(
        holders=holders,
        threshold=manifest.config.recovery_threshold or len(holders),
        code=_code(replicas),
        statuses=() if replicas is None else replicas.accepted_tcb_statuses,
        platforms=None if replicas is None else replicas.platforms or None,
    )


def additions(before: RootKeyAccess, after: RootKeyAccess) -> Iterator[str]:
    """Yield a sentence for each change of an update that lets more people or code learn the keys.

    ``before`` and ``after`` are the access by the manifests before and after the update.
    """
    known = set(before.holders.values())
    for name, key in sorted(after.holders.items()):
        if key not in known:
            yield f"adds the holder {name}"
    if after.holders and before.holders and after.threshold < before.threshold:
        yield f"lowers the recovery threshold from {before.threshold} to {after.threshold}"
    yield from (f"admits {each}" for each in after.code if each not in before.code)
    for status in after.statuses:
        if status not in before.statuses:
            yield f"accepts platforms with the status {status}"
    if after.code and before.platforms is not None:
        if after.platforms is None:
            yield "admits any platform"
        for platform in after.platforms or ():
            if platform not in before.platforms:
                yield f"admits the platform {platform}"


def _code(replicas: Replicas | None) -> tuple[str, ...]:
    if replicas is None:
        return ()
    return tuple(map(_package, replicas.code)) or ("the same code on other machines",)


def _package(package: Package) -> str:
    """Return the stated fields of ``package``, an element of a manifest, on one line."""
    fields = msgspec.to_builtins(package)
    stated = {name: value for name, value in fields.items() if value not in (None, "", [], {}, ())}
    return " ".join(f"{name} {_value(value)}" for name, value in stated.items())


def _value(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
