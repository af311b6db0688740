"""What a virtual array is, and how it is spelt in Zarr's terms.  Pure."""
