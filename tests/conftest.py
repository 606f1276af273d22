"""What holds for every test: one thread, so that parallel runs do not fight over cores."""

import torch

torch.set_num_threads(1)
