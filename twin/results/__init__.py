"""What a run leaves: its record, tables, summary, figures, report and timeline.

`record` is what the simulator or the engine hands over; `summary` turns it into the flat numbers of `summary.json`;
`save` writes the whole run folder and `load` reads it back. Nothing here imports anything of the project but itself;
pyarrow, matplotlib, rich and yaml are imported where they are used, so that `import twin.results.summary` costs numpy.
"""
