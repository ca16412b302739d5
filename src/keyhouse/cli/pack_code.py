"""The former name of ``keyhouse.base.process.pack_code``, which installations may still use."""

import sys

from keyhouse.base.process.pack_code import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
