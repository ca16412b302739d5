"""The console: a local web application. It shows deployments, and people decide in it.

The console verifies a coordinator as every command does. It needs the extra ``keyhouse[console]``.
"""
