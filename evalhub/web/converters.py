"""Path converters: a digest and a project name, so that no address needs a regular expression."""


class DigestConverter:
    """`sha256:` and 64 hexadecimal digits, as the wire writes it."""

    regex = "sha256:[0-9a-f]{64}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


class ProjectConverter:
    """`OWNER/NAME`."""

    regex = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}/[A-Za-z0-9][A-Za-z0-9._-]{0,99}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value
