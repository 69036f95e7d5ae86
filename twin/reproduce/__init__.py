"""Published results, run again: `python -m twin reproduce NAME`.

A result is two files of one name: `conf/experiment/NAME.yaml` says what was published and with which set-up it is run
again, `twin/reproduce/NAME.py` has `run(experiment)`, which gives the figures.
"""
