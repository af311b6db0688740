"""Model to references: one module a target."""
