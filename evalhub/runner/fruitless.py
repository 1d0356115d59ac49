"""Whether a lane's command is wrong as a whole: each run ends alike, and none leaves a result."""

from evalhub.runner.spool import RunEnded

_EARLY_RUNS = 3
_SHOWN_LINES = 5
_LONGEST_LINE = 200


class Fruitless:
    """How the runs of a lane ended so far. A result or another ending clears the suspicion for good.

    Not safe to use from several threads at once.
    """

    def __init__(self) -> None:
        self.runs = 0
        self._exit_code: int | None = None
        self._is_alike = True
        self._tail = ""

    def note(self, ended: RunEnded, *, wrote_result: bool) -> None:
        """Note how one more run ended."""
        if self.runs == 0:
            self._exit_code = ended.exit_code
        self.runs += 1
        self._tail = ended.output_tail
        is_failure = ended.how == "exited" and bool(ended.exit_code) and not wrote_result
        self._is_alike = self._is_alike and is_failure and ended.exit_code == self._exit_code

    def early_sentence(self) -> str | None:
        """Return what to say while the lane works: something right after its third run alone."""
        if self.runs != _EARLY_RUNS or not self._is_alike:
            return None
        return (
            f"The first {self.runs} runs of the command {self._ended()} and wrote no result.json; "
            f"look whether the command is right. {self._output()}"
        )

    def sentence(self) -> str | None:
        """Return what to say when the lane is over; None if a run did otherwise, or there was none."""
        if self.runs == 0 or not self._is_alike:
            return None
        runs = f"all {self.runs} runs" if self.runs > 1 else "its only run"
        output = self._output()
        return (
            f"The command {self._ended()} in {runs} and never wrote result.json; "
            f"{output[0].lower()}{output[1:]}"
        )

    def _ended(self) -> str:
        code = self._exit_code or 0
        return f"was ended by signal {-code}" if code < 0 else f"ended with {code}"

    def _output(self) -> str:
        lines = [line for line in self._tail.splitlines() if line.strip()][-_SHOWN_LINES:]
        if not lines:
            return "It wrote no output."
        return "The end of its output:" + "".join(f"\n  {line[:_LONGEST_LINE]}" for line in lines)
