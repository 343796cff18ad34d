"""What operators ask and order, whichever door they come through."""
