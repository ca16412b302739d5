"""The console: a local web application that shows deployments, and lets people decide about them.

It verifies a coordinator as every command does. Needs the extra ``keyhouse[console]``.
"""
