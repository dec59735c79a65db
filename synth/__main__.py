"""`python -m synth` and the console command `toolloom`."""

import sys

from synth.app import main

if __name__ == "__main__":
    sys.exit(main())
