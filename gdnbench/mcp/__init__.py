"""A server of the Model Context Protocol (MCP): its tools are verbs of the command line, each call a process.

A tool is a class: its fields are the parameters, and its docstring is the description for the model. It makes the
command's words (`words`) and picks what a model needs of the printed JSON (`digests`). The server has no tool that
writes a source, and lets no parameter name anything outside the project's folders of runs, profiles and kernels.
"""
