"""The common objects of all steps: screen, shell, HTTP client and coordinator."""

import msgspec

from examples.demo.calls import STATUS, Answer, Call, Caller
from examples.demo.process import CoordinatorProcess
from examples.demo.screen import Screen, UnexpectedError
from examples.demo.shell import Done, Shell, typed
from examples.demo.shorten import pretty, shortened

__all__ = ["Stage"]


class Stage(msgspec.Struct, frozen=True):
    """The common objects of all steps. Shows and runs each command and each request."""

    screen: Screen
    shell: Shell
    caller: Caller
    coordinator: CoordinatorProcess

    @property
    def address(self) -> str:
        """The address of the Client API."""
        return f"localhost:{self.caller.port}"

    def command(self, line: str, *, code: int = 0) -> Done:
        """Show and run ``line``, and show its output.

        If ``code`` is not 0, the screen shows a refusal.

        Raises:
            UnexpectedError: the exit code is not ``code``.
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
        """Show and run a ``keyhouse`` command; see ``command``."""
        return self.command(typed(["keyhouse", *words]), code=code)

    def call(self, call: Call, *, status: int = 200) -> Answer:
        """Show and send a request, and show the answer.

        Raises:
            UnexpectedError: the status of the answer is not ``status``.
        """
        self.screen.command(call.line(self.caller.port))
        answer = self.caller.call(call)
        state = f"   Keyhouse-State: {answer.state}" if answer.state else ""
        self.screen.answer(f"HTTP {answer.status} {answer.reason}{state}")
        self.screen.answer(pretty(shortened(answer.json)))
        if answer.status != status:
            raise UnexpectedError(f"the answer is HTTP {answer.status}, must be {status}")
        return answer

    def refused(self, call: Call, status: int, what: str) -> None:
        """Show and send a request; check that the coordinator refuses it and changes nothing.

        Raises:
            UnexpectedError: the status is not ``status``, or the state has changed.
        """
        before = self.caller.call(STATUS).state
        answer = self.call(call, status=status)
        self.screen.holds(answer.state == before, f"{what}; the state is unchanged")
