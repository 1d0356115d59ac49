"""Where in a YAML or JSON file something stands: for sentences that name line and field."""

import yaml


class Lines:
    """The lines of one document's fields, by JSON pointer."""

    def __init__(self, text: str) -> None:
        # JSON is YAML, but for a few escapes that only concern what strings say.
        try:
            self._root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.YAMLError:
            self._root = None

    def of(self, pointer: str) -> int | None:
        r"""Return the line of the deepest field of a pointer that is there; None where nothing is.

        >>> Lines("a: 1\nb:\n  c: 2\n").of("/b/c")
        3
        >>> Lines("a: 1\nb:\n  c: 2\n").of("/b/absent")
        2
        """
        if self._root is None:
            return None
        node, line = self._root, self._root.start_mark.line
        for part in pointer.split("/")[1:]:
            found = _below(node, part.replace("~1", "/").replace("~0", "~"))
            if found is None:
                break
            key, node = found
            line = key.start_mark.line
        return int(line) + 1


def _below(node: yaml.Node, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == name), None)
    if isinstance(node, yaml.SequenceNode) and name.isdecimal() and int(name) < len(node.value):
        item = node.value[int(name)]
        return item, item
    return None
