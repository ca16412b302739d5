"""A walk through the main job of a coordinator: a real process, real HTTPS requests.

``scripts/demo`` runs it. Each step shows what it does, the command, the answer, and what was
checked; a step whose outcome is not the expected one ends the demo with an error.
"""
