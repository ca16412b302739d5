"""Models of the program, with an exhaustive search within a bound."""
