"""An hour of trials that try to break the pipeline: kills, flipped bits, damaged releases, hostile servers.

`make soak` runs them; they are no part of `make test`.
"""

import os

# Before anything loads PyTorch: forked commands get its threads, and the last bits of a vector depend on their number.
os.environ["OMP_NUM_THREADS"] = "1"
