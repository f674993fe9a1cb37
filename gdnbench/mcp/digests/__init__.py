"""Picks what a model needs of each verb's JSON: a function per verb, from the printed document to a `Digest`."""
