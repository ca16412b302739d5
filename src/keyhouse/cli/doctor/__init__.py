"""The command ``keyhouse doctor``: checks this machine and a coordinator, and proposes repairs."""
