"""N5 containers and datasets."""
