"""Render the chart without helm: a reader of the part of Go templates that the chart uses.

The chart is the only source of the objects. helm and this package make equal objects from equal
values. ``tests/deploy/test_helm_values.py`` compares both results for many sets of values. A
construct that this package does not know ends with an error, never with a different object.
"""
