"""What the server runs on: its state, its log, its listeners, its bounds."""
