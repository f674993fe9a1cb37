"""What a model needs of each verb's JSON: a function a verb, from the document as printed to a `Digest`."""
