"""A directory after a crash, made trustworthy."""
