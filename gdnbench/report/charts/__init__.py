"""Charts of stored runs, each defined once: for the report's page and for the terminal.

Altair writes Vega-Lite, and the page draws it by Vega's own code, which vl-convert has. What a page must carry to draw
its charts itself, with plotly 7.1.0 and vl-convert-python 1.9.0 (Vega 6.2, Vega-Lite 6.4):

| | inlined | gzip |
|---|---|---|
| Plotly: the wheel's plotly.min.js; its smaller bundles are on npm and CDNs, not on PyPI | 4816 kB | 1440 kB |
| Vega, Vega-Lite and Vega-Embed: `vl_convert.javascript_bundle` | 898 kB | 305 kB |
"""
