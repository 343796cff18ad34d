"""HTTP: calls, what operators use, figures for monitoring, the console."""
