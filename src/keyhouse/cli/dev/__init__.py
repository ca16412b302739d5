"""The command ``keyhouse dev``: run a simulated coordinator for tests and first steps."""
