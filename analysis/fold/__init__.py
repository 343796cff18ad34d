"""The fold: one pass over the columns of data files, its parts merged, tables made at the end. No Spark here.

    part      a run of neighbouring files becomes a Partial: what matched is counted at once, what is open goes on
    merge     two partials of one history become one, the earlier one first; any way of splitting gives the same
    finish    the Partial of everything becomes the tables of the questions

Messages are matched with their ends by number. Within a file the numbers of its ADDs ascend, so that a place
in a table answers, and no hash. What the vectors cannot decide alone is set aside: numbers that end twice, and
ends and copies whose ADD should be in a file that is there, and is not. Then everything is folded once more,
without those numbers, and their operations are kept whole and put together at the end.

Memory grows with what is undelivered at the borders of parts, not with operations: 53 bytes a message that is open,
21 bytes an end whose ADD has not been met, 8 bytes a message that compaction moved, that has ended, and
whose ADD has not been met. A queue's latencies take 8 bytes a delivered message, and at most some MiB; over time they
take at most 54 MB and 48 bytes a row of the answer, see `latencies.py`.
"""
