"""The default TCP ports of the coordinator's interfaces."""

from typing import Final

CLIENT_API_PORT: Final = 4433  # MarbleRun's port
WORKLOAD_API_PORT: Final = 2001  # MarbleRun's port
