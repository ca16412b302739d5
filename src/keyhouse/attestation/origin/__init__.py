"""Where a root key comes from: the code that a coordinator accepts, and the proof of a line."""
