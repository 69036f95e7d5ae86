"""What `bench/gpu.py` is made of: sections that measure, the processes and times that they get, and the tables."""
