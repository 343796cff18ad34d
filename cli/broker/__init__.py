"""Commands of a broker: serve, info, cmd, top, attributes, user."""
