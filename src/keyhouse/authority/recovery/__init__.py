"""Recovery: shares of the data key, the index beside the journal, and submitted shares.

A coordinator that cannot unseal its data key receives the key back from the holders of shares. Each
holder has a share, encrypted to the holder's recovery key. The index names the holders, because the
coordinator cannot open the journal before the recovery.
"""
