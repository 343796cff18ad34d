"""`python -m cli` is `oms`."""

from cli.main import main

main()
