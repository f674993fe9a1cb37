"""Runs on disk: one folder for each run, written whole or not at all, and checked field by field when read.

Every function here that reads a file raises RunFormatError, which names file and line or field, for one that is
missing, cut off, damaged or of an unknown schema, and UnreadableError for one that the machine refuses to hand over.
"""
