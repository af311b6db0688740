"""Bytes by range: where they are opened, read and cached."""
