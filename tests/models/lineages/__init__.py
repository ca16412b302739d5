"""A model of running workloads: reads of secrets, and renewals of certificates.

The search tries every sequence of actions, up to a depth, and looks for a broken invariant. The
result is a shortest sequence. Each decision is the decision of the product: ``decide``, ``evolve``,
``require_reader``, ``identify_marble`` and ``overlap_hours``, with real certificates. Four parts
are rules of the model, because they are not in the pure core: evidence, the read gate, the append
at the end of the journal, and fresh keys.

    PYTHONPATH=tests .venv/bin/python -m models.lineages           every run
    PYTHONPATH=tests .venv/bin/python -m models.lineages backup    runs with this word in the name

Actors:

- W is an honest workload. Its answers can be lost.
- T is a thief: it copies the certificate and the key of W, without or with an admitted enclave.
- X runs code of the attacker, or an old version of the admitted code, on a machine of the host.
- The host copies the disk and starts the copy, beside the live deployment.
- Mallory is a user until an update dismisses her. A replica knows the keys of the state until an
  update dismisses it.
- The operator restores a backup. A second replica has an old view.

A fault removes one defence from the model. A run with a fault has to break an invariant: so each
invariant can fail, and each defence is necessary.

Not in it: TLS, the encoding of requests, times of the host, witnesses, and faults of the disk.
"""
