"""The formats: a room each, with everything that knows its bytes."""
