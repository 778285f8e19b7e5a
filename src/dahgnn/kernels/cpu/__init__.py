"""Kernels in C++ for the CPU."""
