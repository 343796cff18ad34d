"""Drawings of the page: HTML, plots, and the scales of their axes."""
