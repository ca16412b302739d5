"""Count the files of Keyhouse on each path of a request: the program of scripts/ways."""
