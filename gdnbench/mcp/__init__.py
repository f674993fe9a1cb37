"""A server of the Model Context Protocol (MCP): its tools are verbs of the command line, each call a process.

`tools` lists which parameters of its verb a tool offers, and how they are checked; their types, limits and help are the
verb's. `digests` pick what a model needs of the printed JSON. No tool writes a source, and no parameter names a file
outside the project's folders of runs, profiles and kernels.
"""
