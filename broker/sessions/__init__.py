"""Sessions: how a program sends, receives and settles units of work, in threads and in asyncio."""
