"""The test suites of foreign STOMP clients, run against a real `oms serve`: `python -m tests.clients DIR`."""
