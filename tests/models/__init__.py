"""Models of the program that are searched exhaustively, within a bound."""
