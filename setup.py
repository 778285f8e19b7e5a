"""Build the CPU kernels with the package; everything else is in pyproject.toml.

The extension is a plain shared library that `dahgnn.kernels.cpu.launch` loads by itself. It is optional:
without a C++ compiler the package installs all the same and computes by plain PyTorch. With DAHGNN_PURE=1 it
is not even tried, and the wheel is one for every platform (py3-none-any).
"""

import os
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup

# OpenMP is compiled in but not linked: its symbols are those of the library that torch has loaded, so that
# both share one pool of threads. Neither errno nor traps are read, which lets loops be vectorised. Python's
# own flags ask for debugging tables, which would be most of the file.
flags = ["-O3", "-g0", "-std=c++17", "-fno-math-errno", "-fno-trapping-math"]
if sys.platform.startswith("linux"):
    flags.append("-fopenmp")

# The library calls nothing of Python, so that one wheel serves every version from 3.11 on (cp311-abi3).
# Pythons without a global lock have no such tag: there the wheel is for one version.
any_version = not sysconfig.get_config_var("Py_GIL_DISABLED")

kernels = Extension(
    "dahgnn.kernels.cpu._kernels",
    sources=["src/dahgnn/kernels/cpu/kernels.cpp"],
    depends=sorted(str(path) for path in Path("src/dahgnn/kernels/cpu").glob("*.inl")),
    extra_compile_args=flags,
    language="c++",
    optional=True,
    py_limited_api=any_version,
)
# The flags and the way of loading are those of Unix.
pure = os.environ.get("DAHGNN_PURE") == "1" or sys.platform == "win32"

setup(
    ext_modules=[] if pure else [kernels],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if any_version and not pure else {},
)
