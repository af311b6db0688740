"""Bytes to facts: frozen dataclasses of what a format's headers say.  Opens nothing."""
