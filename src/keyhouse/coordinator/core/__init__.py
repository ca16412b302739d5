"""The pure core: the state, the events that change it, and the decisions about them. No I/O.

A change has two halves. ``decide`` judges a command against the state and returns events, or raises
a refusal. ``evolve`` applies one event to the state and never refuses. The engine writes the events
to the journal between the two halves. A start replays the journal through the same ``evolve``, so a
replayed state equals the served state.

Both halves are functions of their arguments. Time, random numbers, new keys and verdicts about
quotes arrive in ``Context`` and in the command.
"""
