"""`python -m tests.api`: plays scripts with fresh seeds for a while; `make fuzz TARGET=api` starts it."""

import sys

from tests.api.campaign import CAMPAIGN
from tests.support.attack import main

if __name__ == "__main__":
    sys.exit(main(CAMPAIGN))
