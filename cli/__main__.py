"""`python -m cli` is `oms`."""

from oms_journal.cli.main import main

main()
