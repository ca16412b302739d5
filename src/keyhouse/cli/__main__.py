"""``python -m keyhouse.cli``: the same as ``keyhouse``."""

from keyhouse.cli import main

if __name__ == "__main__":
    main()
