"""What a CUDA graph does, on a CPU: operations are noted once, with the memory they used, and done again on it.

Whatever a step computes outside of torch (a Python number, a branch, a new random draw) is a constant of the tape, and
whatever tensor it leaves that was not there before is stale after a replay: just as in a graph.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Tape(TorchDispatchMode):
    """Notes every operation below autograd and vmap; call it with work to get what replays the work."""

    def __init__(self):
        super().__init__()
        self.recorded = 0

    def __call__(self, work: Callable[[], None]) -> Callable[[], None]:
        self.notes = notes = []
        work()  # warm up, as CudaGraphs does: afterwards, nothing may be copied from the host
        with self:
            work()
        self.recorded += 1

        def replay() -> None:
            with torch.no_grad():
                for function, arguments, keywords, results in notes:
                    for place, value in zip(results, tree_leaves(function(*arguments, **keywords)), strict=True):
                        if isinstance(value, torch.Tensor) and value.data_ptr() != place.data_ptr():
                            place.copy_(value)

        return replay

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        keywords = keywords or {}
        found = function(*arguments, **keywords)
        assert function is not torch.ops.aten._local_scalar_dense.default, "a step that waits for the device"
        self.notes.append((function, arguments, keywords, tree_leaves(found)))
        return found
