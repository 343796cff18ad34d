"""The report: what is asked, its tables, its summary, and its page."""
