"""The decode step in cuTile: a tile of ROWS rows of the state a block, which the compiler spreads over its threads."""

from gdnbench import CutileKernel, Param

kernel = CutileKernel(
    name="decode-cutile",
    entry="gdn_decode_cutile",
    params={"ROWS": Param(default=8, choices=(4, 8, 16, 32), doc="state rows per block")},
    grid=lambda shape, p: (shape.V // p.ROWS, shape.B * shape.HV),
    block=lambda _shape, _p: 128,
)
