"""Charts of stored runs, each defined once: for the report's page, by Vega-Lite, and for the terminal."""
