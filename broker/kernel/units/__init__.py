"""Units of work: sent, received, committed, backed out, ended by time."""
