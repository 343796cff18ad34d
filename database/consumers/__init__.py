"""Who gets which message: handed out, waited for, leased, given back, and put aside as a dead letter."""
