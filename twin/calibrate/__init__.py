"""From measured times to a latency model: its coefficients, and how wrong it is where it was not fitted.

`profile` fits steps that were measured one by one; `requests` fits a log of requests alone, by simulating them.
"""
