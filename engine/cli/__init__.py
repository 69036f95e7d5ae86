"""The command line of the engine: one file a command."""
