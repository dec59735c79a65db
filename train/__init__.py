"""What eats the data: SFT, RL, evaluation in the environments."""

import os
import sys

# Threads that wait must sleep: on a machine with other work, spinning ones cost twice the processor
# time and several times the wall time (measured: 58 s against 31 s of processor time a step). The
# library reads this once, when torch is loaded; whoever sets it otherwise is left alone.
if "torch" not in sys.modules:
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
