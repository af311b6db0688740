"""NITF 2.0 and 2.1, NSIF 1.0."""
