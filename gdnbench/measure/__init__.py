"""Plans a run, measures its cases in worker processes, and analyses their samples."""
