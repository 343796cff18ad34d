"""A broker inside a program: it calls the kernel, writes to the store, and waits for both."""
