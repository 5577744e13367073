"""The worker of kernels in Python: what speaks with the daemon, checks and times. Runs with any Python from 3.9 on and
needs no package; NumPy, torch and CuPy are used where the kernel's module uses them. One thread."""
