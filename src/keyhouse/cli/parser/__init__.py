"""How words on the command line become the parameters of a function; on click."""
