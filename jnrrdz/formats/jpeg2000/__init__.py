"""JPEG 2000 and HTJ2K, bare or in boxes."""
