"""Which messages and which keyed state are live, and where."""
