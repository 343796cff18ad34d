"""The tests, and the fakes and tools they share."""
