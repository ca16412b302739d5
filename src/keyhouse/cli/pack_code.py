"""Run ``keyhouse.base.process.pack_code`` under its former name: installations may still use it."""

import sys

from keyhouse.base.process.pack_code import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
