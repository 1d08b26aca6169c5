"""How often the diagnosis is right: trainings that really fail, or really do not, each with the cause as its label.

`cases/` holds the trainings, a file for each family. `worker.py` runs them in processes of their own and leaves their
bundles in a store; everything else reads that store, so that rules can be worked on without training again.
"""
