"""A store as bytes, unloaded and loaded."""
