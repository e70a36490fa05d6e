"""Tests. One BLAS thread a process, set before anything loads one: the workers fill the cores already."""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
