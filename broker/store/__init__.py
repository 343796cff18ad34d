"""What a broker needs of a store, and how its life begins and ends."""
