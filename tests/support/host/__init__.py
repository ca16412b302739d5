"""A malicious host. It owns the disk, the database and the clock, and runs its own enclaves.

The host has no key of a genuine machine. It knows a data key only with the permission of a
manifest: the host owns a recovery key, or ``Config.Replicas.Code`` admits the host's code.
"""
