"""How class names become prompts; the one place where they are spelled."""

DEFAULT_TEMPLATE = "a photo of a {}."


def readable(name: str) -> str:
    """A class name as a person writes it, with spaces for underscores; equal classes have equal ones."""
    return name.replace("_", " ")


def spell(template: str, name: str) -> str:
    """The prompt of a class: its name in the place of `{}`, with spaces for underscores throughout."""
    return readable(template.replace("{}", name))
