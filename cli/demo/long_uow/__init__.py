"""A unit of work that takes long, is watched, and is stopped."""
