"""The sections of the page: a question, its answer in words, drawings and tables."""
