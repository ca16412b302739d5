"""`keyhouse evidence`: what a deployment's history proves, in a file."""
