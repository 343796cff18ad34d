"""A broker elsewhere, over HTTP."""
