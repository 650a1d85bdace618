"""`python -m loopfsm` is the command `loopfsm`."""

from __future__ import annotations

import sys

from loopfsm.cli import main

if __name__ == "__main__":
    sys.exit(main())
