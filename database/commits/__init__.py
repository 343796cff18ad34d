"""Commits as callers hand them in: checked, limited, drafted, and what they change once they are durable."""
