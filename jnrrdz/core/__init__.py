"""What a virtual dataset is: arrays, references, codecs, places, pyramids.  Pure."""
