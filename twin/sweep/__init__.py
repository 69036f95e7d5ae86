"""Many runs as one: who has run already, Hydra's launchers that run the rest, and one table over all of them.

What a single run is, and how it is described on the command line, is not known here: see `twin.cli.sweep`.
"""
