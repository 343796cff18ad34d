"""Topics: publications and subscriptions."""
