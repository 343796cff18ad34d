"""The broker: units of work, conversations and topics on the message database."""
