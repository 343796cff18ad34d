"""A store that moves from one running broker to another, over HTTP."""
