"""Build the CPU kernels with the package; everything else is in pyproject.toml.

The extension is a plain shared library that `dahgnn.kernels.cpu.launch` loads by itself. It is optional:
without a C++ compiler the package installs all the same and computes by plain PyTorch.
"""

import sys
from pathlib import Path

from setuptools import Extension, setup

# OpenMP is compiled in but not linked: its symbols are those of the library that torch has loaded, so that
# both share one pool of threads. Neither errno nor traps are read, which lets loops be vectorised.
flags = ["-O3", "-std=c++17", "-fno-math-errno", "-fno-trapping-math"]
if sys.platform.startswith("linux"):
    flags.append("-fopenmp")

setup(
    ext_modules=[
        Extension(
            "dahgnn.kernels.cpu._kernels",
            sources=["src/dahgnn/kernels/cpu/kernels.cpp"],
            depends=sorted(str(path) for path in Path("src/dahgnn/kernels/cpu").glob("*.inl")),
            extra_compile_args=flags,
            language="c++",
            optional=True,
        )
    ]
)
