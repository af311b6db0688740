"""What stands on scanning, reading and writing together."""
