"""Recovery: shares of the data key, the index beside the journal, and submitted shares.

A coordinator that cannot unseal its data key receives the key back from its shareholders. Each
holds a share, encrypted to a recovery key. The index names the shareholders before the journal can
be opened.
"""
