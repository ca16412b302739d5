"""Hand the data key from one replica to another, through notes in the shared store.

A replica on another machine cannot unseal the data key. This replica stores an *ask* with its
public keys. A serving replica answers with a *give*: the data key, sealed to the keys of the ask. A
replica that makes a new data key stores a *switch* for each admitted replica. So no replica needs a
connection to another replica.

The store is untrusted. A quote binds every byte of an ask and a give, and the manifest
(``Config.Replicas``) decides about the quoted code. A switch has a signature; the signer and the
receiver each leave a *member* note, a quote over their public keys. The store can drop, keep and
repeat notes. That costs availability. The decision 0039 has the reasons.
"""
