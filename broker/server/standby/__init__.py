"""The second broker: it watches the first one, and takes over."""
