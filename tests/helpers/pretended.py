"""A pretended accelerator: real numbers in main memory that say they are on a device and refuse to be mixed.

PyTorch's own rules hold: an operation takes tensors of one device, single numbers and indices of the host
beside them; only copies cross over. Whatever crosses over to the host, where a real accelerator would have to
be waited for, is noted.
"""

import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from unittest.mock import patch

import torch
from accelerate import Accelerator
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.backend_registration import _DummyBackendModule, _DummyDeviceGuard

DEVICE_NAME = "privateuseone"  # what PyTorch keeps for devices of others
DEVICE = torch.device(DEVICE_NAME, 0)
VALUES = {"aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal"}
SIZES = {"aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_dim", "aten::bincount"}
COPIES = {"aten::_to_copy", "aten::copy_"}
INDEXED = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}


class OnDevice(Tensor):
    """A tensor that says it is on the device; `held` has its numbers."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> "OnDevice":
        return Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=DEVICE,
        )

    def __init__(self, held: Tensor) -> None:
        self.held = held

    def __repr__(self) -> str:
        return f"OnDevice({self.held})"

    def tolist(self):
        """PyTorch has none for tensors of another kind; this reads as a device's would."""
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        message = f"{function} was asked of the pretended device outside of `pretended()`"
        raise AssertionError(message)


class Pretending(TorchDispatchMode):
    """Carries operations out on the numbers that tensors hold, after asking whether a device could."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = function._schema.name
        there = [one for one in tree_leaves((args, kwargs)) if isinstance(one, OnDevice)]
        asked = kwargs.get("device")
        to_device = bool(there) if asked is None else torch.device(asked).type == DEVICE.type
        if there and name not in COPIES:
            refuse_mixed(name, args, kwargs)
        if name in VALUES | SIZES and there:
            self.note(name)
        if name == "aten::_to_copy" and there and not to_device:
            self.note("copy to the host")
        if name == "aten::copy_" and there:
            to_device = isinstance(args[0], OnDevice)
            if not to_device:
                self.note("copy to the host")
        if asked is not None and torch.device(asked).type == DEVICE.type:
            kwargs = {**kwargs, "device": torch.device("cpu")}
        wrappers = {id(one.held): one for one in there}
        inner = tree_map_only(OnDevice, lambda one: one.held, (args, kwargs))
        found = function(*inner[0], **inner[1])
        if not to_device:
            return found if name != "aten::copy_" else args[0]
        return tree_map_only(
            Tensor, lambda one: wrappers[id(one)] if id(one) in wrappers else OnDevice(one), found
        )

    def note(self, what: str) -> None:
        """Remember what was read, and where in the package."""
        own = [frame for frame in traceback.extract_stack() if "/dpw/" in frame.filename]
        self.reads.append(f"{what} at {own[-1].filename}:{own[-1].lineno}" if own else what)


def refuse_mixed(name: str, args, kwargs) -> None:
    """Refuse what an accelerator would refuse: tensors of the host beside its own."""
    checked = [args, kwargs]
    if name in INDEXED and isinstance(args[0], OnDevice):  # its indices may be the host's
        checked = [args[0], args[2:], kwargs]
    for one in tree_leaves(checked):
        if isinstance(one, Tensor) and not isinstance(one, OnDevice) and one.dim() > 0:
            shape = tuple(one.shape)
            raise AssertionError(f"{name} got a tensor {shape} of the host beside tensors of the device")


class _NotThere(torch._C._acc.PrivateUse1Hooks):
    """The device exists, but is not the one that this machine computes with if nobody says otherwise."""

    def is_available(self) -> bool:
        return False

    def is_built(self) -> bool:
        return True

    def has_primary_context(self, index: int) -> bool:
        return True


class _Module(_DummyBackendModule):
    """What PyTorch asks about the device: there is none for whoever does not name it."""

    def is_available(self) -> bool:
        return False

    def device_count(self) -> int:
        return 0


def _register() -> None:
    """Make the device known to PyTorch, at collection: the first backward pass counts the devices."""
    torch.utils.rename_privateuse1_backend(DEVICE_NAME)
    torch._register_device_module(DEVICE_NAME, _Module())
    torch._C._acc.register_python_privateuseone_hook(_NotThere())
    torch._C._acc.register_python_privateuseone_device_guard(_DummyDeviceGuard())


def _without_gradients(mode: bool = True) -> AbstractContextManager[None]:
    """In place of `torch.inference_mode`, in which PyTorch cannot make views of tensors of this kind."""
    return torch.no_grad() if mode else nullcontext()


@contextmanager
def pretended() -> Iterator[Pretending]:
    """The device is there inside of this; gives what notes the reads."""
    future, core = torch.__future__, torch._C
    overwrite, lift = future.get_overwrite_module_params_on_conversion(), core._only_lift_cpu_tensors()
    future.set_overwrite_module_params_on_conversion(True)
    core._set_only_lift_cpu_tensors(True)
    try:
        with patch.object(torch, "inference_mode", _without_gradients), Pretending() as mode:
            yield mode
    finally:
        core._set_only_lift_cpu_tensors(lift)
        future.set_overwrite_module_params_on_conversion(overwrite)


class PretendedAccelerator(Accelerator):
    """Accelerate as it would be with the device."""

    @property
    def device(self) -> torch.device:
        return DEVICE

    def prepare_model(self, model, device_placement=None, evaluation_mode=False):
        """Take a model that is there already: here a move makes new parameters, unknown to the optimiser.

        A real device keeps a parameter and moves what it holds; tensors of this kind cannot do that.
        """
        assert all(isinstance(one, OnDevice) for one in model.parameters())
        return super().prepare_model(model, device_placement=False, evaluation_mode=evaluation_mode)


_register()
