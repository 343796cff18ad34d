"""How long something is to go on, as an argument of a command line."""

import argparse


def minutes(text: str) -> float:
    """Return so many minutes; argparse's error for what is none, or not above 0."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes above 0")
    return found
