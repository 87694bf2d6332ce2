"""Tests keep nothing in the user's cache folder, and compiled programs for each other only."""

import atexit
import os
import shutil
import signal
import tempfile
from importlib.metadata import version

os.environ["GLASSFORMER_CACHE"] = "off"

# Shells ignore interrupts in background jobs, and tests of interrupts would find none there.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Compiled in half the time, for programs that run up to twice as long: tests run most of them once. In one part, a
# program takes 5 % less processor time to compile than in several that other cores could take.
faster = " --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
# From version 0.11 on the compiler ends the process where it sees the first of these flags.
if tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11):
    faster += " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + faster

# One folder for all test processes and what they start: most of their time goes into compiling the same few programs.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="glassformer-tests-")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
