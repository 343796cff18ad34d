"""STOMP: from a frame to its receipt, from a message to its acknowledgement."""
