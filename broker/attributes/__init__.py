"""The attribute file: its text, its keywords, the values that count."""
