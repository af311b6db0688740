"""Bytes only: where they are opened, read by range, and cached."""
