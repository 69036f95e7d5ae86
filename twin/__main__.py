"""`python -m twin <command> [key=value ...]`."""

import sys

from twin.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
