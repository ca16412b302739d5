"""Setup of every Keyhouse process: isolation, hardening, standard streams, last-resort handler."""
