"""Commands on the history of a journal: dump, export, analyze."""
