"""TIFF, BigTIFF, Cloud-Optimized GeoTIFF, and the dialects of microscopy."""
