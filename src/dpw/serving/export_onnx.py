"""A traced graph as ONNX, tidied so that other tools can work with it, and on request with 8-bit weights."""

import logging
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from dpw.errors import InputError

OPSET = 18
LARGEST = 2**31 - 1  # bytes of one ONNX file
BLOCKS = ".encoder.layers."  # in the names of all weights of the tower's blocks
FIRST = f"{BLOCKS}0."  # of the first block
INSTALL = "pip install 'dpw[export]'"


def require_onnx() -> tuple[Any, Any]:
    """The modules onnx and onnxruntime, or one sentence about how to get them."""
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise InputError(f"writing ONNX needs {error.name}: {INSTALL}") from error
    return onnx, onnxruntime


def onnx_bytes(
    program: ExportedProgram,
    inputs: list[str],
    outputs: list[str],
    metadata: Mapping[str, str],
    int8: bool,
) -> bytes:
    """A traced graph as the bytes of an ONNX file."""
    onnx, _ = require_onnx()
    size = sum(tensor.nbytes for tensor in program.state_dict.values())
    if size > LARGEST:
        raise InputError(f"an ONNX file holds at most 2 GB and this model has {size / 1e9:.1f}: use .pt2")
    with quiet():
        translated: Any = torch.onnx.export(
            program,
            dynamo=True,
            opset_version=OPSET,
            input_names=inputs,
            output_names=outputs,
            verbose=False,
            optimize=False,  # it would rename weights; runtimes optimise by themselves
            custom_translation_table={torch.ops.aten.sort.stable: _stable_sort},
        )
        model = translated.model_proto
        plain_products(model)
        if int8:
            model = quantized(model)
    _name_batch(model)
    onnx.helper.set_model_props(model, dict(metadata))
    onnx.checker.check_model(model)
    found: bytes = model.SerializeToString()
    return found


def _stable_sort(values: Any, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:  # noqa: ARG001
    """Sorting, as TopK of everything: of equals the first comes first."""
    from onnxscript import opset18

    count = opset18.Shape(values, start=dim, end=dim + 1)
    return opset18.TopK(values, count, axis=dim, largest=int(descending), sorted=1)


def _name_batch(model: Any) -> None:
    """Call the free dimension `batch`, as people look for it."""
    free = next(dim.dim_param for dim in model.graph.input[0].type.tensor_type.shape.dim if dim.dim_param)
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == free:
                dim.dim_param = "batch"


def plain_products(model: Any) -> None:
    """Make every linear map a MatMul with a constant matrix, in place.

    Both passes share their weights. Quantisation would turn a Gemm into a MatMul by transposing its weight
    in place, and a shared one twice: here each constant is transposed and scaled once, under a new name.
    """
    graph, constants = model.graph, _Constants(model.graph.initializer)
    turned = {node.output[0]: node.input[0] for node in graph.node if constants.are_turned_by(node)}
    nodes = []
    for node in graph.node:
        if node.output[0] in turned:
            continue
        if node.op_type == "Gemm":
            nodes += _as_product(node, constants, turned)
            continue
        inputs = [constants.like(turned[one], True) if one in turned else one for one in node.input]
        node.input[:] = inputs
        nodes.append(node)
    used = {name for node in nodes for name in node.input} | {value.name for value in graph.output}
    kept = [one for name, one in constants.by_name.items() if name in used]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(kept)


def _as_product(node: Any, constants: "_Constants", turned: Mapping[str, str]) -> list[Any]:
    """A Gemm as a MatMul, and an Add where it has a bias."""
    from onnx import helper

    options = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0} | _attributes(node)
    x, weight, *bias = node.input
    assert not options["transA"], "activations are never transposed"
    turn = (weight in turned) != bool(options["transB"])
    matrix = constants.like(turned.get(weight, weight), turn, options["alpha"])
    if not bias:
        return [helper.make_node("MatMul", [x, matrix], list(node.output), name=node.name)]
    product = f"{node.output[0]}.product"
    summands = [product, constants.like(bias[0], False, options["beta"])]
    return [
        helper.make_node("MatMul", [x, matrix], [product], name=product),
        helper.make_node("Add", summands, list(node.output), name=node.name),
    ]


class _Constants:
    """The constants of a graph, and new ones made of them, each once."""

    def __init__(self, initializers: Any) -> None:
        """Take those that are there."""
        self.by_name = {constant.name: constant for constant in initializers}

    def are_turned_by(self, node: Any) -> bool:
        """Whether a node only transposes a constant matrix."""
        known = node.op_type == "Transpose" and node.input[0] in self.by_name
        return known and _attributes(node)["perm"] == [1, 0]

    def like(self, name: str, turn: bool, factor: float = 1.0) -> str:
        """The name of a constant like the named one, transposed or multiplied."""
        from onnx import numpy_helper

        new = f"{name}{'.T' if turn else ''}{'' if factor == 1 else f'.x{factor:.4g}'}"
        if new not in self.by_name:
            values = numpy_helper.to_array(self.by_name[name])
            values = (values.T if turn else values) * values.dtype.type(factor)
            self.by_name[new] = numpy_helper.from_array(values.copy(), new)
        return new


def _attributes(node: Any) -> dict[str, Any]:
    """The attributes of a node as plain values."""
    from onnx import helper

    return {one.name: helper.get_attribute_value(one) for one in node.attribute}


def quantized(model: Any) -> Any:
    """The same model with 8-bit weights in its blocks, activations being quantised while it runs.

    The small matrices behind the blocks stay: they make the features by which images find their tasks. So
    does the first block, whose errors all others would carry on.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    products = [node for node in model.graph.node if node.op_type == "MatMul"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "int8.onnx"
        quantize_dynamic(
            model,
            path,
            op_types_to_quantize=["MatMul"],
            nodes_to_exclude=[node.name for node in products if not _gets_8_bits(node.input[1])],
            per_channel=True,
            # Processors without VNNI add two products in 16 bits, which 8-bit weights overflow.
            reduce_range=True,
            weight_type=QuantType.QInt8,
        )
        return onnx.load(path)


def _gets_8_bits(weight: str) -> bool:
    """Whether a weight of this name is quantised."""
    return BLOCKS in weight and FIRST not in weight


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the exporters' remarks off the terminal."""
    loggers = [
        logging.getLogger(name) for name in ("torch.onnx", "torch.export", "root", "onnxscript", "onnx_ir")
    ]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
