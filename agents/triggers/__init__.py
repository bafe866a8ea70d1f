"""Outside events: each begins a run of a workflow, or is given to the run that waits for it.

`verification`, `expressions` and `mapping` are pure: is the event from whom it should be, and what
does it say. `views` takes it in and answers at once, `deliveries` writes down what came and what
became of it, `handling` does the work in a task, `preview` tells what would be done.
"""
