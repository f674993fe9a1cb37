"""Plans a run, measures it in worker processes, and analyses what they measured."""
