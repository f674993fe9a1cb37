"""The process that launches chains on the GPU; only this part of the package imports torch."""
