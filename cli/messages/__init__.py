"""Commands on messages: load, send, list, receive, remove, release."""
