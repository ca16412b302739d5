"""`keyhouse log policy check`: check a policy of witnesses, and print its tolerance for faults.

A policy has a quorum rule over witnesses. Two quorums that always share a witness exclude a fork,
unless the shared witnesses lie. A quorum that needs fewer witnesses survives more outages, but
tolerates fewer liars.
"""

from typing import Annotated, Final

import click

from keyhouse.base.errors import RefusedError
from keyhouse.base.user_files import read_file
from keyhouse.cli.output.show import show_json, show_rows, show_table
from keyhouse.cli.parser import Argument, AsJson, CommandGroup
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import COSIGNED_MLDSA44
from keyhouse.transparency.policy import CosignaturePolicy, Witness

policy_app = CommandGroup(help="Check policies of witnesses.")

_FORK: Final = "two contradicting checkpoints can both have a quorum even if no witness lies"


@policy_app.command("check")
def check(
    file: Annotated[
        str, Argument(metavar="FILE", help="policy (C2SP tlog-policy); - for standard input")
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Check a policy of witnesses: how many may lie, how many may fail.

    Liars: if at most this number of witnesses lie, two contradicting checkpoints cannot both reach
    a quorum. Outages: if at most this number of witnesses fail, the remaining witnesses still form
    a quorum.

    Example: keyhouse log policy check witnesses.policy
    """
    from keyhouse.views.witnesses import quorum_in_words

    policy = read_policy(file)
    quorum = quorum_in_words(policy.quorum)
    if as_json:
        show_json(
            {
                "witnesses": [
                    {"name": each.name, "key": str(each.key), "url": each.url}
                    for each in policy.witnesses
                ],
                "quorum": quorum,
                "liarsBorne": policy.tolerated_liars,
                "outagesBorne": policy.tolerated_outages,
            }
        )
        return
    _show_witnesses(policy)
    liars = str(policy.tolerated_liars) if policy.tolerated_liars >= 0 else f"none: {_FORK}"
    show_rows(
        {
            "quorum": quorum,
            "liars borne": liars,
            "outages borne": str(policy.tolerated_outages),
        }
    )


def read_policy(file: str) -> CosignaturePolicy:
    """Return the policy of witnesses in ``file``; "-": standard input. Raises ``RefusedError``."""
    return policy_in(read_file(file))


def policy_in(raw: bytes) -> CosignaturePolicy:
    """Return the policy of witnesses (C2SP tlog-policy) in ``raw``. Raises ``RefusedError``."""
    try:
        return CosignaturePolicy.read(raw.decode())
    except UnicodeDecodeError:
        raise RefusedError(
            "the policy of witnesses is not UTF-8", hint="save the file as UTF-8"
        ) from None
    except LogInvalidError as fault:
        hint = "write each line as witness NAME KEY URL, group NAME NUMBER MEMBERS, or quorum NAME"
        raise RefusedError(fault.message, hint=hint) from None


def _show_witnesses(policy: CosignaturePolicy) -> None:
    if not policy.witnesses:
        return
    rows = [
        (each.name, each.key.name, _algorithm(each), each.url or "-") for each in policy.witnesses
    ]
    show_table(("WITNESS", "KEY NAME", "ALGORITHM", "URL"), rows)
    click.echo()


def _algorithm(witness: Witness) -> str:
    return "ML-DSA-44" if witness.key.kind == COSIGNED_MLDSA44 else "Ed25519"
