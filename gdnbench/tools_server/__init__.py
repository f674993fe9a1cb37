"""A server of the Model Context Protocol (MCP): its tools are verbs of the command line, each call a process.

A tool is a class: its fields are the parameters, its docstring is what a model is told, and it makes the command's
words (`words`) and what a model needs of the JSON that the command prints (`digests`). The server has no tool that
writes a source, and lets no parameter name anything outside the project's folders of runs, profiles and kernels.
"""
