"""What a method keeps for each task: one module of the bank, made of the task's own tensors."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from torch import Tensor, nn

KEPT_BYTES = 256 * 2**20  # of stored tasks that were read to answer an image; the latest are kept


class HostTensors(nn.Module):
    """Named tensors that are stored with a task but keep their place and their precision.

    Statistics in float64 and remembered images belong in main memory: unlike buffers they neither follow the
    model to an accelerator nor take part in training, but they are part of the task's state like any other.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        """Keep detached copies on the host."""
        super().__init__()
        self.tensors = {name: _on_host(tensor) for name, tensor in tensors.items()}

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
                self.tensors[name] = _on_host(state_dict[prefix + name])
            else:
                missing.append(prefix + name)


def _on_host(tensor: Tensor) -> Tensor:
    """A detached copy in main memory; one that has a shape but no numbers (`meta`) stays as it is."""
    return tensor if tensor.is_meta else tensor.detach().cpu().clone()


class TaskSource(Protocol):
    """Where the tensors of a learned task lie."""

    @property
    def light(self) -> Mapping[str, Tensor]:
        """Those that every answer needs, in memory."""
        ...

    @property
    def shapes(self) -> Mapping[str, Tensor]:
        """All of them, as tensors that have a shape but no numbers."""
        ...

    def read(self) -> dict[str, Tensor]:
        """All of them; refused if they are no longer what they were."""
        ...


class StoredTask(nn.Module):
    """A learned task of which only what every answer needs is in memory; the rest is read when asked for."""

    def __init__(
        self,
        source: TaskSource,
        kept: Mapping[str, nn.Module],
        whole: Callable[[Mapping[str, Tensor]], Any],
        parameters: int,
    ) -> None:
        """`kept` are the parts in memory, `whole(tensors)` makes the module, which has so many parameters."""
        super().__init__()
        self.source, self.whole, self.parameter_count = source, whole, parameters
        self.kept = dict(kept)  # not registered: nothing in them is trained or moved
        self.size = sum(one.numel() * one.element_size() for one in source.shapes.values())

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Stand in the state of the method with all tensors."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination.update({prefix + name: tensor for name, tensor in self.source.read().items()})


class Bank(nn.ModuleList):
    """The modules of all tasks in order. Stored ones are read when needed; the latest of them are kept.

    `bank[index]` makes a stored task an ordinary module, for good: whoever asks that way may change it.
    Answers ask for one `part`, which is read, used and at some time dropped.
    """

    def __init__(self) -> None:
        """Nothing is learned."""
        super().__init__()
        self._recent: OrderedDict[StoredTask, Any] = OrderedDict()

    def slot(self, index: int) -> nn.Module:
        """What stands for a task: its module, or a `StoredTask`."""
        return self._modules[str(range(len(self))[index])]

    def part(self, index: int, name: str) -> Any:
        """One part of a task's module."""
        slot: Any = self.slot(index)
        if not isinstance(slot, StoredTask):
            return slot[name]
        return slot.kept[name] if name in slot.kept else self._whole(slot)[name]

    def tensor(self, index: int, part: str, name: str) -> Tensor | None:
        """A tensor among `HostTensors`, if it is there; of a stored task only if it is in memory."""
        slot: Any = self.slot(index)
        if isinstance(slot, StoredTask):
            return slot.source.light.get(f"{part}.{name}")
        kept: HostTensors | None = slot[part] if part in slot else None  # noqa: SIM401 (no mapping)
        return None if kept is None else kept.tensors.get(name)

    def state(self, index: int) -> Mapping[str, Tensor]:
        """The tensors of a task by their shapes; those of a stored one have no numbers."""
        slot = self.slot(index)
        return slot.source.shapes if isinstance(slot, StoredTask) else slot.state_dict()

    def stored(self) -> list[StoredTask]:
        """The tasks that are not in memory whole."""
        return [slot for slot in self._modules.values() if isinstance(slot, StoredTask)]

    def names_on_disk(self, names: Iterable[str]) -> set[str]:
        """Those of a method's tensors that belong to tasks which are not in memory whole."""
        on_disk = [position for position, slot in self._modules.items() if isinstance(slot, StoredTask)]
        return {name for name in names if name.startswith(tuple(f"bank.{one}." for one in on_disk))}

    def _whole(self, slot: StoredTask) -> Any:
        """The module of a stored task, read unless it was used lately."""
        module = self._recent.pop(slot, None)
        if module is None:
            module = slot.whole(slot.source.read())
            module.update(slot.kept)
        self._recent[slot] = module
        while len(self._recent) > 1 and sum(one.size for one in self._recent) > KEPT_BYTES:
            self._recent.popitem(last=False)
        return module

    def __getitem__(self, index: Any) -> Any:
        """The module of a task, which stays in memory from now on; a slice gives an ordinary list."""
        if isinstance(index, slice):
            return nn.ModuleList([self[position] for position in range(*index.indices(len(self)))])
        slot = self.slot(index)
        if isinstance(slot, StoredTask):
            slot = self._whole(slot)
            del self._recent[next(reversed(self._recent))]
            self[index] = slot
        return slot

    def __iter__(self) -> Iterator[nn.Module]:
        """All modules, as by their index."""
        return (self[index] for index in range(len(self)))

    def __delitem__(self, index: Any) -> None:
        """Forget tasks."""
        self._recent.clear()
        super().__delitem__(index)

    def _apply(self, *given: Any, **named: Any) -> Any:
        """Move to a device or precision; what was read for the old one is dropped."""
        self._recent.clear()
        return super()._apply(*given, **named)  # type: ignore[no-untyped-call]
