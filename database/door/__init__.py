"""The door for other processes: one process has the database, the others add to it over a Unix socket."""
