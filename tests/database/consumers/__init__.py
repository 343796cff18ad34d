"""Messages in somebody's hands: taken, waited for, leased, given back, due, dead."""
