"""`python -m tests.callers`: plays scripts with fresh seeds for a while; `make fuzz TARGET=callers` starts it."""

import sys

from tests.attack import main
from tests.callers.campaign import CAMPAIGN

if __name__ == "__main__":
    sys.exit(main(CAMPAIGN))
