"""Build, compare, describe and sign the outputs of a release: the program of scripts/release."""
