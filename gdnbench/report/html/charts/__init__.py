"""Charts as Vega-Lite specifications: data and encodings, no drawing.

What a page must carry for its charts, with plotly 7.1.0 and vl-convert-python 1.9.0 (Vega 6.2, Vega-Lite 6.4):

| | inlined | gzip |
|---|---|---|
| Plotly: the wheel's plotly.min.js; its smaller bundles are on npm and CDNs, not on PyPI | 4816 kB | 1440 kB |
| Vega, Vega-Lite and Vega-Embed: `vl_convert.javascript_bundle` | 898 kB | 305 kB |

So Vega-Lite, without Altair, which would add a layer of Python to a few dictionaries and nothing to the page. Vega
draws SVG and hands colours through, so they are CSS variables: dark mode and print need no second drawing.
"""
