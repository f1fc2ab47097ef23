"""What a method keeps for each task: one module of the bank, made of the task's own tensors."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn


class HostTensors(nn.Module):
    """Named tensors that are stored with a task but keep their place and their precision.

    Statistics in float64 and remembered images belong in main memory: unlike buffers they neither follow the
    model to an accelerator nor take part in training, but they are part of the task's state like any other.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        """Keep detached copies on the host."""
        super().__init__()
        self.tensors = {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}

    def __getitem__(self, name: str) -> Tensor:
        """One of the tensors."""
        return self.tensors[name]

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Stand in the task's state under the module's own prefix."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination.update({prefix + name: tensor for name, tensor in self.tensors.items()})

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        """Take tensors of the same names back; a missing one is reported as for parameters."""
        missing: list[str] = rest[2]
        for name in self.tensors:
            if prefix + name in state_dict:
                self.tensors[name] = state_dict[prefix + name].detach().cpu().clone()
            else:
                missing.append(prefix + name)
