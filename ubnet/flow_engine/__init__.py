"""The kernels of the flow engine, a file each for what they do; `driver` is the way in.

Numba compiles a kernel anew when any file of this folder or of `ubnet.jit` has changed.
"""
