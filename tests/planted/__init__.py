"""The deliberate faults of all campaigns, and whether the tests nearest to each of them find it: `make test-faults`."""
