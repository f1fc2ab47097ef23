"""Whether what an optional command needs is installed, said in one sentence."""

from importlib.util import find_spec

from dpw.errors import InputError


def need_extra(command: str, extra: str, *modules: str) -> None:
    """Refuse a command whose optional dependencies are missing.

    Args:
        command: what the user called, such as `dpw serve`.
        extra: the name of the extra that installs the modules.
        modules: what must be importable.

    Raises:
        InputError: one of them is not there.

    Example:
        >>> from dpw.serving.extras import need_extra
        >>> need_extra("dpw serve", "serve", "json")
    """
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise InputError(f"{command} needs {missing[0]}, which is not installed: pip install 'dpw[{extra}]'")
