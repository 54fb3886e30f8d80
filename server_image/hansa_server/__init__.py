"""Hansa's server program: checks and aggregates the updates of a round."""

import os

# One BLAS thread, set before numpy is first imported: results must not depend on how many cores a
# machine has, and the server's own threads already use them.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
