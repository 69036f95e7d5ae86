"""All of the engine's tests: one thread, for several of them on one core are slower than one."""

import torch

torch.set_num_threads(1)
