"""Which token comes next: parameters of a request, greedy and sampled tokens on the device, beam search on the host."""
