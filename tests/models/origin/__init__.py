"""A model of root keys: where they come from, and who can know them.

It searches every sequence of actions, up to a depth, for one that lets a client accept a
coordinator whose root key the host knows. It returns a shortest sequence. Cryptography is perfect
in it: a key is known or it is not.

    PYTHONPATH=tests .venv/bin/python -m models.origin          every run, about a minute
    PYTHONPATH=tests .venv/bin/python -m models.origin 1 adopt  these runs

Actors are a host, coordinators A and B of genuine code on machines of their own, users, holders,
witnesses and clients. The host has the disk, the database, starts and stops, and an enclave H of
its own code. Quotes of H are true, and say that it is H.

=========  ===========================================================  ======  ========  ========
manifest   about                                                        users   holder    admits H
=========  ===========================================================  ======  ========  ========
T          what clients expect                                          good    good      no
N          the next one that clients expect                             good    good      no
E          users agree to other code by mistake, and dismiss it with N  good    good      yes
R          users agree to a holder who is the host's                    good    host's    no
C          the host's own                                               host's  good      yes
O          the host's own, with one holder: the share is the data key   host's  host's    no
=========  ===========================================================  ======  ========  ========

Not in it: what a data key protects beside the root key (planted members of a store could learn the
next one, but who has one data key knows the root already), side channels, and faults of the code.
"""
