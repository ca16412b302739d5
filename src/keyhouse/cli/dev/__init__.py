"""The command ``keyhouse dev``: a simulated coordinator to try things on."""
