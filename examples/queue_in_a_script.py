"""A queue in a script: put each line of standard input into a queue, and say its number.

    printf 'tea\ncoffee\n' | python queue_in_a_script.py spool orders

A line is on disk when its number is printed. What the script has printed, a power cut does not take back.
"""

import sys

from oms_journal import MessageDatabase


def main(spool: str, queue: str) -> None:
    with MessageDatabase.open(spool) as db:
        for line in sys.stdin:
            number = db.add(queue, line.rstrip("\n").encode())
            print(number, line.rstrip("\n"), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
