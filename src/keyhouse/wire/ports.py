"""The TCP ports of the interfaces, by default."""

from typing import Final

CLIENT_API_PORT: Final = 4433  # MarbleRun's port
WORKLOAD_API_PORT: Final = 2001  # MarbleRun's port
