"""Commands on what was: dump, export, analyze."""
