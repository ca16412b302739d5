"""The instructions of the images, executed without a container engine."""
