"""What every process of Keyhouse does to itself: isolation, standard streams, the last resort."""
