"""NRRD and JNRRD."""
