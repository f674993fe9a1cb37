"""Only the tokens that name something or set a default change."""

import ast

import pytest

from gdnbench.catalog.new import Changes, rewrite
from gdnbench.errors import UsageError

SOURCE = '''\
#!/usr/bin/env python
# Licensed — to all. "decode-v4" is said here, and stays.
"""One idea.

And "more" about decode-v4.
"""

from gdnbench import CudaKernel, Param  # WARPS of decode-v4

kernel = CudaKernel(
    name = 'decode-v4',   # é, before and after
    entry="gdn_decode_v4",
\tparams={"WARPS": Param(default=8, choices=(4, 8), doc="decode-v4"), "BV": Param(16, (16, 32))},
    presets={
        # four warps
        "decode-v4b": {"WARPS": 4},
        "decode-v4c": {"WARPS": 4, "BV": 32},  # and 32 rows
        "decode-v4d": {"BV": 32}
    },
    grid=lambda shape, p: (shape.V // p.WARPS, shape.B * shape.HV),
    block=lambda shape, p: 32 * p.WARPS,
)
'''
CHANGES = Changes("New: idea.", "decode-v9", "gdn_decode_v9", {"WARPS": 4, "BV": 32})
_before, _, _more = SOURCE.partition("presets=")
EXPECTED = (
    f"{_before}presets={{}}{_more[_more.index('},' + chr(10) + '    grid') + 1 :]}".replace("One idea.", "New: idea.")
    .replace("name = 'decode-v4'", "name = 'decode-v9'")
    .replace("gdn_decode_v4", "gdn_decode_v9")
    .replace("default=8", "default=4")
    .replace("Param(16,", "Param(32,")
)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"], ids=["unix", "dos", "mac"])
def test_all_else_stays_byte_for_byte(ending):
    assert rewrite(SOURCE.replace("\n", ending), CHANGES) == EXPECTED.replace("\n", ending)


@pytest.mark.parametrize(
    "docstring",
    ["", '"""One."""', "'One.'", 'r"""One."""', '"One." " And more."', '"""\nOne.\n"""', '"""One.\n\nMore."""'],
)
def test_the_idea_is_the_docstrings_first_line_and_may_hold_quotes(docstring):
    idea = 'Says """x""" \\ and "y"'
    found = ast.get_docstring(ast.parse(rewrite(f'{docstring}\nkernel = f(name="x")\n', Changes(idea, "decode-v9"))))
    assert found.partition("\n")[0] == idea
    assert found.endswith("More.") == docstring.endswith('More."""')


@pytest.mark.parametrize(
    "source",
    [
        'kernel = f(name=f"decode-{v}")\n',
        'kernel = f(name="decode" + "-v4")\n',
        'kernel = f("decode-v4")\n',
        'kernel = g[0]\n',
        'f(name="decode-v4")\n',
        "from elsewhere import kernel\n",
        'kernel = f(name="decode-v4", params=make())\n',
        'kernel = f(name="decode-v4", params={"WARPS": make})\n',
        'kernel = f(name="decode-v4", params={"WARPS": Param(**more)})\n',
    ],
)  # fmt: skip
def test_what_is_computed_is_refused(source):
    with pytest.raises(UsageError, match=r"variant\.py computes") as caught:
        rewrite(source, Changes("New.", "decode-v9", defaults={"WARPS": 4}))
    assert caught.value.hint
