"""What a program says to a broker: verbs, for threads and for asyncio."""
