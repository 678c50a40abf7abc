"""Error of a profile that cannot be run."""


class ProfileError(ValueError):
    """A field of a profile is wrong.

    Args:
        field: Its name.
        problem: The value found, and what would be right.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
