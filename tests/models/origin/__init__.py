"""A model of root keys: their origins, and the host's knowledge of them.

The search tries every sequence of actions, up to a depth. It looks for a client that accepts a
coordinator with a root key known to the host, and returns a shortest sequence. The model has
perfect cryptography: the host knows a key or does not know it.

    PYTHONPATH=tests .venv/bin/python -m models.origin          every run, about a minute
    PYTHONPATH=tests .venv/bin/python -m models.origin 1 adopt  these runs

Actors are a host, coordinators A and B of genuine code on their own machines, users, holders,
witnesses and clients. The host has the disk, the database, starts and stops, and an enclave H with
the host's code. Quotes of H are true, and identify H.

=========  ===========================================================  ======  ========  ========
manifest   about                                                        users   holder    admits H
=========  ===========================================================  ======  ========  ========
T          expected by clients                                          good    good      no
N          the next manifest, expected by clients                       good    good      no
E          users agree to wrong code by mistake, and N dismisses it     good    good      yes
R          users agree to a holder of the host                          good    host's    no
C          the host's manifest                                          host's  good      yes
O          the host's manifest, with one holder: the share is the key   host's  host's    no
=========  ===========================================================  ======  ========  ========

The model omits side channels and faults of the code. It also omits the protection that a data key
gives beside the root key. Planted members of a store could learn the next data key, but whoever has
a data key already knows the root.
"""
