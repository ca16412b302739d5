"""The TCB status of an Intel platform: one set of words for manifests, collateral and answers."""

from enum import StrEnum


class TcbStatus(StrEnum):
    """The state of a platform's trusted computing base, in Intel's words.

    ``REVOKED`` can only appear in a manifest's list of accepted statuses, and has no effect there:
    a quote with this status is always refused.
    """

    UP_TO_DATE = "UpToDate"
    OUT_OF_DATE = "OutOfDate"
    REVOKED = "Revoked"
    CONFIGURATION_NEEDED = "ConfigurationNeeded"
    OUT_OF_DATE_CONFIGURATION_NEEDED = "OutOfDateConfigurationNeeded"
    SW_HARDENING_NEEDED = "SWHardeningNeeded"
    CONFIGURATION_AND_SW_HARDENING_NEEDED = "ConfigurationAndSWHardeningNeeded"
