"""The OMS message database: durable queues of messages and keyed state in one directory."""
