"""``python -m queuecore.cli``: the command ``queuecore``."""

import sys

from queuecore.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
