"""A host that attacks: it owns disk, database and clock, and has enclaves of its own code.

It has no key of a genuine machine. What it knows of a data key it knows because a manifest let it:
a recovery key is the host's, or ``Config.Replicas.Code`` admits the host's code.
"""
