"""A broker in one's own program: the edge that waits."""
