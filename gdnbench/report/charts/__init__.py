"""Charts of stored runs by Vega-Lite, each defined once: for the report's page, and as pictures."""
