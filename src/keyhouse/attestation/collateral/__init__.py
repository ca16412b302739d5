"""The collateral of quotes: reading, caching, and fetching from a PCCS.

Collateral is data that the platform vendor signs: certificates, revocation lists, the TCB info of a
platform family, and the identity of the quoting enclave. A quote cannot be verified without
collateral.
"""
