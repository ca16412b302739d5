"""A malicious host: it owns the disk, the database and the clock, and runs enclaves of its code.

The host has no key of a genuine machine. It knows a data key only because a manifest permits it:
the host owns a recovery key, or ``Config.Replicas.Code`` admits the host's code.
"""
