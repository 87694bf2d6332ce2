"""Message passing on inputs divided among several devices."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from glassformer import IncompatibleError
from glassformer.designs.dense import DenseDesign
from glassformer.designs.sharded import ShardedDesign

SCRIPT = """
import json
import sys
import jax, numpy as np
from glassformer import AttentionIndexed, BilinearSequenceRegression, simulate
from glassformer.designs.dense import DenseDesign
from glassformer.designs.quadratic import LayeredQuadraticDesign
from glassformer.designs.projection import ProjectionDesign, projection_design
from glassformer.designs.quadratic import QuadraticDesign
from glassformer.designs.sharded import ShardedDesign
from glassformer.learners.gamp import gamp

gaps, rng = {"devices": len(jax.devices())}, np.random.default_rng(0)
for kind, shape, signal_shape in (
    (DenseDesign, (4, 5), (4, 5)),
    (QuadraticDesign, (2, 6), (6, 6)),
    (LayeredQuadraticDesign, (2, 6), (3, 6, 6)),
    (ProjectionDesign, (2, 6), (3, 6)),
    (projection_design(2), (2, 6), (4, 3)),
):
    stored = kind.sample(23, shape, rng)
    signal = rng.standard_normal(signal_shape)
    if kind in (QuadraticDesign, LayeredQuadraticDesign):
        signal = signal + np.swapaxes(signal, -1, -2)
    fields = stored.forward(signal, 0)
    score = rng.standard_normal(fields.shape)
    sharded = ShardedDesign(stored)
    gaps[kind.__name__] = max(
        float(np.max(np.abs(sharded.forward(signal, 0) - fields))),
        float(np.max(np.abs(sharded.adjoint(score, 0) - stored.adjoint(score, 0)))),
    )
    assert sharded.first(10).forward(signal, 0).shape[0] == 10
model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
stored = DenseDesign.sample(200, (20, 20), rng)
labels = model.channel.sample(stored.forward(model.prior.sample((20, 20), rng), 0), rng)
several, one = gamp(model, ShardedDesign(stored), labels), gamp(model, ShardedDesign(stored, jax.devices()[:1]), labels)
gaps["gamp"] = float(np.max(np.abs(several.value - one.value)))
for model, alpha, d in ((model, 0.5, 20), (AttentionIndexed(0.5), 0.1, 20)):
    ask = {"d": d, "instances": 1}
    plain, shared = (simulate(model, [alpha], storage=kept, **ask)["error"][0] for kept in ("float32", "sharded"))
    gaps[model.name] = float(abs(plain - shared))
print(json.dumps(gaps))
"""


@pytest.mark.thorough
def test_several_devices_give_the_result_of_one():
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    run = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    gaps = json.loads(run.stdout)
    assert gaps.pop("devices") == 4
    exact = {name: gaps.pop(name) for name in list(gaps) if "Design" in name or name == "gamp"}
    assert max(exact.values()) < 1e-8
    # In single precision sums in another order differ, and a run amplifies that as much as it would any rounding.
    assert max(gaps.values()) < 0.02


def test_several_instances_are_refused():
    with pytest.raises(IncompatibleError, match="one instance"):
        ShardedDesign(DenseDesign(np.ones((2, 5, 3, 4))))
