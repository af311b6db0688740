"""Source and layout to model: one module a format."""
