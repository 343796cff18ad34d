"""Conversations: found, woken, put to sleep, ended."""
