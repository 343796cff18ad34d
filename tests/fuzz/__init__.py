"""Fuzzing: what decodes bytes from elsewhere, played with inputs that its own coverage leads to."""
