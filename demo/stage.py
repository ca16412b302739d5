"""Where the steps play: the folder, the coordinator, and the screen that shows it all."""

import msgspec

from demo.calls import Answer, Call, Caller
from demo.process import CoordinatorProcess
from demo.screen import Screen
from demo.shell import Done, Shell, typed
from demo.shorten import pretty, shortened

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
        """Show ``line`` and what it prints. Raises ``Unexpected`` if it does not end with ``code``.

        The screen says only codes that mean a refusal.
        """
        self.screen.command(line)
        done = self.shell.run(line)
        self.screen.answer(done.output.decode(errors="replace") + done.errors)
        if code or done.code:
            self.screen.holds(done.code == code, f"refused: exit code {code}")
        return done

    def keyhouse(self, *words: str) -> Done:
        """Show a ``keyhouse`` command and what it prints."""
        return self.command(typed(["keyhouse", *words]))

    def call(self, call: Call, *, status: int = 200) -> Answer:
        """Show a request and its answer. Raises ``Unexpected`` if the status is another."""
        self.screen.command(call.line(self.caller.port))
        answer = self.caller.call(call)
        state = f"   Keyhouse-State: {answer.state}" if answer.state else ""
        self.screen.answer(f"HTTP {answer.status} {answer.reason}{state}")
        self.screen.answer(pretty(shortened(answer.json)))
        if answer.status != status:
            self.screen.holds(claim=False, text=f"the answer is HTTP {status}")
        return answer
