"""Routes for workloads that renew, and for their revocations."""

import re
from hashlib import sha256
from heapq import nsmallest
from typing import Final, NamedTuple

from keyhouse.base.errors import BadRequestError, ForbiddenError
from keyhouse.base.printable import quoted
from keyhouse.coordinator import Running, View, policy_of
from keyhouse.coordinator.core.commands import RevokeWorkloads
from keyhouse.coordinator.core.events import Scope
from keyhouse.coordinator.core.lineages import is_revoked, trusted_roots
from keyhouse.coordinator.core.state import Lineage, Standing
from keyhouse.coordinator.core.update_log import timestamp
from keyhouse.manifest import Action, Anchored
from keyhouse.server.client_api.routes import UseCases, user_of
from keyhouse.server.client_api.v2.writes import NOT_WITNESSED
from keyhouse.server.http.body import read_body
from keyhouse.server.http.exchange import Admission, Answer, Head
from keyhouse.server.http.query import short_values
from keyhouse.wire import client_api as wire
from keyhouse.wire.field_presence import LEFT_OUT
from keyhouse.wire.workload_api import uuid_of

LONGEST_REASON: Final = 200
"""Characters of a reason. The update log keeps the reason forever."""

PAGE: Final = 1000
"""Largest number of workloads in an answer."""

_PLACE: Final = r"[0-9a-f]{32}"
_PLATFORM: Final = r"(?:[0-9a-fA-F]{32}|[0-9a-fA-F]{128})"


async def revoke(to: UseCases, head: Head, body: bytes) -> Answer:
    """Revoke a workload, a marble type or a platform.

    Return the number of revoked workloads and the end of their last certificate.
    """
    command = _command(read_body(body, wire.RevocationBody), user_of(head))
    view = await to.engine.submit(command)
    witnessed = await to.engine.lease.wait_if_anchored(Anchored.REVOCATIONS)
    state = view.running

    def answer() -> wire.RevocationAnswer:
        # A later activation of the workload begins a lineage, which has no standing.
        all_lineages = state.lineages.values()
        ends = [each.end for each in all_lineages if each.standing and is_revoked(each, command)]
        return wire.RevocationAnswer(
            message=LEFT_OUT,
            workloads=len(ends),
            ends=timestamp(max(ends)) if ends else "",
            witnessed=LEFT_OUT if witnessed is None else witnessed,
        )

    message = NOT_WITNESSED if witnessed is False else ""
    return to.answers.success(await to.preparation.off_loop(answer), view, message)


def read_revocations(to: UseCases, view: View, head: Head) -> Admission:
    """Return the revocations in effect that the calling user may see."""
    state = view.running
    sight = _sight_of(state, head)

    def answer() -> wire.Revocations:
        effects = {Standing.RENEW, Standing.REVOKED}
        revoked = [
            each
            for each in state.lineages.values()
            if each.standing in effects and sight.shows(each.marble_type)
        ]
        return wire.Revocations(
            workloads=tuple(
                wire.RevokedWorkload(
                    marble_type=each.marble_type,
                    uuid=each.uuid,
                    platform=each.platform.hex(),
                    ends=timestamp(each.end),
                    renews=each.standing == Standing.RENEW,
                )
                for each in sorted(revoked, key=lambda each: (each.marble_type, each.uuid))
            ),
            platforms=tuple(
                wire.RevokedPlatform(each.platform.hex(), timestamp(each.time), each.user)
                for each in (state.revoked_platforms if sight.platforms else ())
            ),
        )

    async def fresh(body: bytes) -> Answer:
        del body
        # A state can have many lineages.
        return to.answers.success(await to.preparation.off_loop(answer), view)

    return Admission(0, fresh)


def read_workloads(to: UseCases, view: View, head: Head) -> Admission:
    """Return a page of the workloads that renew and that the calling user may see.

    The parameter ``from`` of the query is the field ``next`` of the previous page. Without it, the
    page is the first page. Every page also has the trusted marble roots.
    """
    state, now = view.running, to.engine.current.now()
    sight = _sight_of(state, head)
    places = short_values(head.query, "from")
    place = places[0] if places else ""
    if len(places) > 1 or (places and not re.fullmatch(_PLACE, place)):
        raise BadRequestError(
            'the parameter "from" must be a single place of 32 hex digits',
            fields={"from": "must be a single place of 32 hex digits"},
            hint='send the value of the field "next" of the previous page',
        )

    def answer() -> wire.Workloads:
        after = bytes.fromhex(place)
        following = (
            name
            for name, each in state.lineages.items()
            if name > after and sight.shows(each.marble_type)
        )
        names = nsmallest(PAGE + 1, following)
        living = tuple(_living(state.lineages[name]) for name in names[:PAGE])
        roots = [wire.MarbleRoot(sha256(state.keys.marble_root_cert).hexdigest(), "")]
        roots += [
            wire.MarbleRoot(sha256(each.certificate).hexdigest(), timestamp(each.until))
            for each in trusted_roots(state, now)
        ]
        more = names[PAGE - 1].hex() if len(names) > PAGE else ""
        return wire.Workloads(living, more, tuple(roots))

    async def fresh(body: bytes) -> Answer:
        del body
        return to.answers.success(await to.preparation.off_loop(answer), view)

    return Admission(0, fresh)


def _living(lineage: Lineage) -> wire.LivingWorkload:
    return wire.LivingWorkload(
        marble_type=lineage.marble_type,
        uuid=lineage.uuid,
        platform=lineage.platform.hex(),
        ends=timestamp(lineage.end),
        renewed=bool(lineage.before),
        state=lineage.standing or "current",
    )


class _Sight(NamedTuple):
    """The part of the workloads and revocations that a user may see.

    A user sees the marble types that the user may revoke. A machine may run workloads of every
    type, so a user sees the revoked platforms only with the permission to revoke platforms. A user
    who may update the manifest sees everything, because an update can give every permission.
    """

    types: frozenset[str]
    everything: bool
    platforms: bool

    def shows(self, marble_type: str) -> bool:
        """Return whether the user may see workloads of ``marble_type``."""
        return self.everything or marble_type in self.types


def _sight_of(state: Running, head: Head) -> _Sight:
    """Return the part of the workloads and revocations that the calling user may see.

    Raises ``ForbiddenError`` if the user may neither revoke workloads nor update the manifest.
    """
    policy = policy_of(state.manifest)
    user, marbles = policy.identify(head.identity), policy.manifest.marbles
    rights = policy.permissions
    everything = rights.allows(user, Action.UPDATE_MANIFEST)
    if not everything and not rights.allows(user, Action.REVOKE_WORKLOAD):
        raise ForbiddenError(
            f"user {quoted(user)} has neither RevokeWorkload nor UpdateManifest",
            hint="give the user a role with one of these actions, by an update of the manifest",
        )
    types = frozenset(
        each for each in marbles if rights.allows(user, Action.REVOKE_WORKLOAD, (each,))
    )
    return _Sight(types, everything, platforms=everything or types == marbles.keys())


def _command(sent: wire.RevocationBody, identity: bytes) -> RevokeWorkloads:
    """Return the command of a request. Raises ``BadRequestError`` for a wrong field."""
    if sent.scope not in {*Scope}:
        raise _refused("scope", f"must be {' or '.join(Scope)}")
    scope = Scope(sent.scope)
    needed = {
        Scope.WORKLOAD: ("marbleType", "uuid"),
        Scope.TYPE: ("marbleType",),
        Scope.PLATFORM: ("platform",),
    }[scope]
    given = {"marbleType": sent.marble_type, "uuid": sent.uuid, "platform": sent.platform}
    for name, value in given.items():
        if bool(value) is not (name in needed):
            rule = "is needed" if name in needed else "must be empty"
            raise _refused(name, f"{rule} for the scope {scope}")
    uuid = uuid_of(sent.uuid) if sent.uuid else None
    if sent.uuid and uuid is None:
        raise _refused("uuid", "must be a UUID")
    if sent.platform and not re.fullmatch(_PLATFORM, sent.platform):
        raise _refused("platform", "must be a PPID of 32 hex digits, or a CHIP_ID of 128")
    platform = bytes.fromhex(sent.platform)
    # Machines without an id, such as those with a masked CHIP_ID, all have zeros.
    if sent.platform and not any(platform):
        raise _refused("platform", "has only zeros, which is not the id of a single platform")
    if len(sent.reason) > LONGEST_REASON:
        raise _refused("reason", f"must have at most {LONGEST_REASON} characters")
    name = "" if uuid is None else str(uuid)
    return RevokeWorkloads(identity, scope, sent.marble_type, name, platform, sent.reason)


def _refused(field: str, problem: str) -> BadRequestError:
    return BadRequestError(
        f"the revocation is invalid: its {field} {problem}",
        fields={field: problem},
        hint=f"correct {field} and send the revocation again",
    )
