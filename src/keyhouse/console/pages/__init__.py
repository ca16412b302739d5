"""The pages of a deployment, one file each."""
