"""Real brokers, real clients, and what happens to both: every client keeps its own record, and a checker compares.

brokers     `oms serve`, alone or two on one store, and who starts them again
clients     the clients as processes: each writes down what it sent, was promised, got and acknowledged
records     what is in these records, read
checks      what must hold between the records and what is in the store at the end
nemeses     what happens, by seed: killed, stopped, overtaken, no room, no descriptors, no directory, other times
campaign    rounds of it, and the figures
soak        hours of load, with memory, descriptors, threads and files watched
clock.c     stands between a broker and the system's clock, and steps it

python -m tests.campaign [--minutes N] [--seed N] [--round SEED]
python -m tests.campaign.soak [--minutes N]
"""
