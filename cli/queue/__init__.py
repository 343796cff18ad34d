"""Commands on a queue: serve it to several processes, requeue its dead letters."""
