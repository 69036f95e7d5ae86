"""What the engine computes, against references, on the devices of this machine."""
