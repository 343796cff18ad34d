"""Faults at the C library's file calls: every call of a commit, a roll, a clean-up, a start … fails in its turn.

    shim.c      stands between the program and the C library, and lets the n-th call fail
    shim        builds it, and arms it
    nursery     a process with the shim and all modules loaded, which forks for every run: 20 ms instead of a second
    programs    what runs there: the engine's day, a takeover, a command of `oms`, its server
    places      the directories that starts and commands are tried on: closed, not closed, torn, damaged, a broker's
    visits      a client at `oms serve`: what it was promised, and what a later server hands out
    verdicts    what must hold after every run
    sweep       which calls there are, which faults each gets, and the table of what came of it

    python -m tests.faults [--minutes N] [--seed N] [--only TEXT]

A run is told by its line in the table: `scenario phase call kind fault n`.
"""
