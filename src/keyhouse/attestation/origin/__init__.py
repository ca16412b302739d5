"""The origin of a root key: the accepted code, and the proof of a line."""
