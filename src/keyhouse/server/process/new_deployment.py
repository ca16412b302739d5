"""What the keys of a new deployment are made from, out of the settings."""

from keyhouse.authority import parse_names
from keyhouse.base.errors import Invalid
from keyhouse.coordinator import NewDeployment
from keyhouse.server.process.settings import SettingRefused, Settings

__all__ = ["new_deployment"]


def new_deployment(settings: Settings) -> NewDeployment:
    """Return the names and the curve.

    Raises:
        SettingRefused: an entry of ``--dns-names`` is neither name nor address, or there is none.
    """
    try:
        dns_names, ip_addresses = parse_names(settings.dns_names)
    except Invalid as error:
        first = error.problems[0]
        raise SettingRefused(
            f"entry {first.at} of --dns-names {first.problem}", hint=first.hint
        ) from None
    if not dns_names and not ip_addresses:
        raise SettingRefused("--dns-names has no name in it", hint="leave it out for localhost")
    return NewDeployment(settings.curve, dns_names, ip_addresses)
