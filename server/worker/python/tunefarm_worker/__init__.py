"""The worker process for kernels in Python: it talks to the daemon, checks outputs and measures times. It runs on
Python 3.9 or newer in one thread and needs only the standard library; NumPy, torch and CuPy are used if the kernel uses
them."""
