"""The pages of a deployment, one file for each page."""
