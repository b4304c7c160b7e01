"""Check every index of compiled kernels, for `golfsim run --debug`.

numba can check indices, but its error has neither a place nor the index. Here it has both, and a negative index is an
error, too: it would count from the end of the array, and −1 often stands for “no node”.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numba
from numba.core import cgutils, lowering, types
from numba.np import arrayobj

from golfsim.core.errors import IndexOutOfRange

NUMBA = Path(numba.__file__).parent


class _Place:
    """Where the instruction stands that is being compiled."""

    kernel = ""
    file = ""
    line = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: in {self.kernel}"


def install() -> None:
    """Let numba check indices in the functions that ask for it, from now on."""
    place, lower, fix = _Place(), lowering.Lower.lower_inst, arrayobj.fix_integer_index

    def lower_with_place(self: Any, inst: Any) -> None:
        before = place.kernel, place.file, place.line
        place.kernel, place.file, place.line = self.func_ir.func_id.func_name, inst.loc.filename, inst.loc.line
        try:
            lower(self, inst)
        finally:
            place.kernel, place.file, place.line = before

    def check(context: Any, builder: Any, index: Any, size: Any, axis: Any = None) -> None:
        above = builder.icmp_signed(">=", index, size)
        with cgutils.if_unlikely(builder, builder.or_(above, builder.icmp_signed("<", index, index.type(0)))):
            about, kinds = (str(place), index, size), (types.intp, types.intp)
            context.call_conv.return_dynamic_user_exc(builder, IndexOutOfRange, about, kinds)

    def fix_unless_negative(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
        ours = context.enable_boundscheck and NUMBA not in Path(place.file).parents
        return context.cast(builder, index, kind, types.intp) if ours else fix(context, builder, kind, index, size)

    lowering.Lower.lower_inst = lower_with_place
    cgutils.do_boundscheck = check
    arrayobj.fix_integer_index = fix_unless_negative
