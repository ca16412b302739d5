"""Where the steps play: the folder, the coordinator, and the screen that shows it all."""

import msgspec

from examples.demo.calls import STATUS, Answer, Call, Caller
from examples.demo.process import CoordinatorProcess
from examples.demo.screen import Screen, UnexpectedError
from examples.demo.shell import Done, Shell, typed
from examples.demo.shorten import pretty, shortened

__all__ = ["Stage"]


class Stage(msgspec.Struct, frozen=True):
    """What the steps share. Every command and request of theirs goes through here."""

    screen: Screen
    shell: Shell
    caller: Caller
    coordinator: CoordinatorProcess

    @property
    def address(self) -> str:
        """The coordinator's address."""
        return f"localhost:{self.caller.port}"

    def command(self, line: str, *, code: int = 0) -> Done:
        """Show ``line`` and what it prints.

        Raises ``UnexpectedError`` if it does not end with ``code``.

        A code other than 0 means a refusal, and the screen says so.
        """
        self.screen.command(line)
        done = self.shell.run(line)
        self.screen.answer(done.output.decode(errors="replace") + done.errors)
        if done.code != code:
            raise UnexpectedError(f"the exit code is {done.code}, must be {code}")
        if code:
            self.screen.holds(done.code == code, f"refused: exit code {code}")
        return done

    def keyhouse(self, *words: str, code: int = 0) -> Done:
        """Show a ``keyhouse`` command and what it prints, as ``command`` does."""
        return self.command(typed(["keyhouse", *words]), code=code)

    def call(self, call: Call, *, status: int = 200) -> Answer:
        """Show a request and its answer. Raises ``UnexpectedError`` if the status is another."""
        self.screen.command(call.line(self.caller.port))
        answer = self.caller.call(call)
        state = f"   Keyhouse-State: {answer.state}" if answer.state else ""
        self.screen.answer(f"HTTP {answer.status} {answer.reason}{state}")
        self.screen.answer(pretty(shortened(answer.json)))
        if answer.status != status:
            raise UnexpectedError(f"the answer is HTTP {answer.status}, must be {status}")
        return answer

    def refused(self, call: Call, status: int, what: str) -> None:
        """Show a request that is refused, changing nothing.

        Raises ``UnexpectedError`` if it is not.
        """
        before = self.caller.call(STATUS).state
        answer = self.call(call, status=status)
        self.screen.holds(answer.state == before, f"{what}; nothing has changed")
