"""The forms of a manifest, each written and read."""
