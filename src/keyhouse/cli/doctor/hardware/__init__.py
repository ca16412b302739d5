"""The hardware report of ``keyhouse doctor``: a trial of this machine, in a redacted file."""
