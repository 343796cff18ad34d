"""The demonstrations: flights, and chess by mail."""
