"""The greatest arrival rate that meets service-level objectives, from repeated simulations at rates that close in on it."""
