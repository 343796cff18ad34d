"""`python -m tests.callers`: plays scripts with fresh seeds for a while; `make fuzz TARGET=callers` starts it."""

import sys

from tests.callers.campaign import CAMPAIGN
from tests.support.attack import main

if __name__ == "__main__":
    sys.exit(main(CAMPAIGN))
