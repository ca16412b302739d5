"""`keyhouse watch`: tells what is new in the transparency logs of deployments."""
