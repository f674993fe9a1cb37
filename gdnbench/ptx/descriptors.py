"""Where a matrix of 16-bit or 8-bit elements lies in shared memory, according to `wgmma` descriptors.

Elements lie in pieces of 16 bytes, eight of 16 bits in each. With a swizzle of W pieces (8, 4 or 2), W pieces make a
row, 8 rows make an atom, and a piece's number in its row is XORed with bits of its row's number: with bits 7 up of the
address. Along a row go the elements that a product sums over ("K-major") or, transposed, rows of A or columns of B
("MN-major", of 16-bit elements alone). See the PTX ISA, "Matrix Descriptor Format" and "Canonical Layouts".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdnbench.ptx.numbers import Array
from gdnbench.ptx.ordering import IntArray

PIECE_BYTES = 16
PIECE = 8  # elements of 16 bits
INNER = 16  # elements of 16 bits that a product sums over
INNER_BYTES = 32
_ROW_PIECES = {0: 1, 1: 8, 2: 4, 3: 2}  # by swizzling mode


@dataclass(frozen=True)
class Descriptors:
    """The descriptors of warpgroups, which agree in all but the addresses.

    `start` and the dimension byte offsets `leading` and `stride` have shape (groups,), in bytes; `row_pieces` is the
    pieces of a row, 1 without a swizzle.
    """

    start: IntArray
    leading: IntArray
    stride: IntArray
    row_pieces: int

    @classmethod
    def read(cls, words: Array) -> Descriptors | None:
        """Decodes 64-bit descriptors; returns None for what is unknown: base offsets, and several swizzles at once."""
        words = words.astype(np.uint64)
        start, leading, stride = (
            (words >> np.uint64(first) & np.uint64(0x3FFF)).astype(np.int64) * PIECE_BYTES for first in (0, 16, 32)
        )
        base, modes = words >> np.uint64(49) & np.uint64(7), np.unique(words >> np.uint64(62))
        if base.any() or len(modes) != 1:
            return None
        return cls(start, leading, stride, _ROW_PIECES[int(modes[0])])

    def pieces(self, size: int, *, is_transposed: bool) -> IntArray | None:
        """Returns addresses of a matrix's pieces, in bytes, or None if a row or an atom is entered at an unknown place.

        Of shape (groups, size, 2): for each of `size` rows of A or columns of B, the two pieces to sum over. Transposed
        (MN-major), of shape (groups, 16, size / 8): for each element to sum over, its pieces.
        """
        width, start = self.row_pieces, self.start[:, None, None]
        leading, stride = self.leading[:, None, None], self.stride[:, None, None]
        across = size // PIECE if is_transposed else INNER_BYTES // PIECE_BYTES
        if width > 1 and not self._begins_well(min(across, width) if is_transposed else across):
            return None
        outer, inner = np.arange(INNER if is_transposed else size)[:, None], np.arange(across)
        rows, groups = outer % 8 * (width * PIECE_BYTES), outer // 8
        if is_transposed and width == 1:
            places = inner * stride + rows + groups * leading
        elif is_transposed:
            places = inner % width * PIECE_BYTES + inner // width * leading + rows + groups * stride
        else:
            places = inner * (leading if width == 1 else PIECE_BYTES) + rows + groups * stride
        addresses = start + places
        swizzled: IntArray = addresses ^ (addresses >> 7 & width - 1) * PIECE_BYTES
        return swizzled

    def _begins_well(self, pieces: int) -> bool:
        """Returns whether the first `pieces` pieces lie in the first row of an atom."""
        row = self.row_pieces * PIECE_BYTES
        return bool((self.start % (8 * row) + pieces * PIECE_BYTES <= row).all())
