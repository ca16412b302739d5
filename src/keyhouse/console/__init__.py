"""The console: a local web application, in which people see deployments and decide updates.

The console verifies a coordinator as every command does. It needs the extra ``keyhouse[console]``.
"""
