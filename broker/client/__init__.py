"""The client of a broker that runs as a server, over HTTP."""
