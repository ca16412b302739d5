"""`keyhouse log policy check`: what a policy of witnesses bears."""

from typing import Annotated, Final

import click

from keyhouse.base.errors import RefusedError
from keyhouse.base.named_files import read_file
from keyhouse.cli.output.show import show_json, show_rows, show_table
from keyhouse.cli.parser import Argument, AsJson, Group
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import COSIGNED_MLDSA44
from keyhouse.transparency.policy import Policy, Witness

policy_app = Group(help="Check policies of witnesses.")

_FORK: Final = "two contradicting checkpoints can both have a quorum although no witness lies"


@policy_app.command("check")
def check(
    file: Annotated[
        str, Argument(metavar="FILE", help="policy (C2SP tlog-policy), or - for stdin")
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Check a policy of witnesses, and print what it bears.

    Liars: witnesses that may cosign contradicting checkpoints before a fork has a quorum. Outages:
    witnesses that may fail, whichever they are, with a quorum left.

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
                "liarsBorne": policy.liars_borne,
                "outagesBorne": policy.outages_borne,
            }
        )
        return
    _show_witnesses(policy)
    liars = str(policy.liars_borne) if policy.liars_borne >= 0 else f"none: {_FORK}"
    show_rows(
        {
            "quorum": quorum,
            "liars borne": liars,
            "outages borne": str(policy.outages_borne),
        }
    )


def read_policy(file: str) -> Policy:
    """Return the policy in ``file``, "-" is standard input. Raises ``RefusedError``."""
    return policy_in(read_file(file))


def policy_in(raw: bytes) -> Policy:
    """Return the policy that is ``raw``. Raises ``RefusedError``."""
    try:
        return Policy.read(raw.decode())
    except UnicodeDecodeError:
        raise RefusedError("the policy is not UTF-8") from None
    except LogInvalidError as fault:
        hint = "lines are: witness NAME KEY URL, group NAME NUMBER MEMBERS, quorum NAME"
        raise RefusedError(fault.message, hint=hint) from None


def _show_witnesses(policy: Policy) -> None:
    if not policy.witnesses:
        return
    rows = [
        (each.name, each.key.name, _algorithm(each), each.url or "-") for each in policy.witnesses
    ]
    show_table(("WITNESS", "KEY NAME", "ALGORITHM", "URL"), rows)
    click.echo()


def _algorithm(witness: Witness) -> str:
    return "ML-DSA-44" if witness.key.kind == COSIGNED_MLDSA44 else "Ed25519"
