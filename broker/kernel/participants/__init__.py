"""Participants: logon, registration, shutdown."""
