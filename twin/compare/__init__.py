"""Runs against each other: the same requests under several policies, what differs, and how sure that is.

`variants` reads folders, `traces` sees to it that they are comparable, `warmup` and `intervals` are the statistics,
`figures` what is measured, `compare` puts them together, `schedule` finds where two schedules part; `tables` and `pictures`
show it. The figures of one run are `twin.results`'.
"""
