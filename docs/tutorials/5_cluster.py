"""
A sweep on a cluster
====================

One verb on a grid of parameters, stored point by point. An interrupted sweep continues, a wider grid computes
its new points only, and several machines may work on one store.
"""

# %%
# A grid
# ------
# Simulations of a bilinear model at two widths, four sample ratios and two seeds.

import tempfile

from glassformer import Sweep

store = tempfile.mkdtemp()
sweep = Sweep(
    "bsr",
    {"rho": [0.2, 0.5], "alpha": "0.2:0.8:4"},
    verb="simulate",
    parameters={"noise": 0.1},
    learner="ridge",
    runs={"d": 30, "instances": 2},
)
print(sweep.run(store))

# %%
# The same call again computes nothing: every point has a checked record.

print(sweep.run(store).computed)

# %%
# A wider grid computes its new points only.

wider = Sweep(
    "bsr",
    {"rho": [0.2, 0.5, 1.0], "alpha": "0.2:0.8:4"},
    verb="simulate",
    parameters={"noise": 0.1},
    learner="ridge",
    runs={"d": 30, "instances": 2},
)
print(wider.run(store).computed)

# %%
# One data set
# ------------
# All records over their axes, as an xarray data set with units, and a ``status`` for every point.

found = Sweep.collect(store)
found

# %%

import matplotlib.pyplot as plt

for rho, error in found["error"].mean("seed").groupby("rho"):
    plt.plot(found["alpha"], error.squeeze(), "o", label=rf"$\rho = {rho}$")
plt.xlabel(r"$\alpha = n/(dL)$")
plt.ylabel("error of ridge regression")
plt.legend()

# %%
# On many machines
# ----------------
# The same sweep as a file, ``sweep.toml``, runs as ``glassformer sweep run sweep.toml --store results --workers 4`` on
# one machine, and with ``--scheduler ADDRESS`` on the workers of a dask scheduler. :doc:`/sweeps` has a complete job
# for SLURM; without dask, an array of jobs that run the same command on the same store shares the work as well. A job
# that runs into its time limit is submitted again and goes on where it stopped.
