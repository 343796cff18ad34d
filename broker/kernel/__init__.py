"""The deciding part of the broker: inputs and the time in, effects out."""
