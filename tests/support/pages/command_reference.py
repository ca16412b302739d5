"""Generate the sections of the reference page about commands from the commands themselves.

The help of a command has its arguments, its own options and sections of shared options. The page
has a table for each section with shared options, and refers to the tables from each command.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

import click

from keyhouse.cli.commands import COMMANDS, ROOT
from keyhouse.cli.parser.command import EXIT_CODES
from keyhouse.cli.parser.help import summary_of
from keyhouse.cli.parser.parameters import GENERAL, section_of
from support.process.command_tree import below

__all__ = ["SECTIONS"]

_SHARED: Final = 3  # commands with an option; then the option is in the table of its section
_OWN_PARSER: Final = {"serve": "settings.md", "run": "launcher.md"}

_PAGES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "dev": (("development mode", "../how-to/development-mode.md"),),
    "dev-machine": (
        ("several coordinators", "../how-to/run-several-coordinators.md#try-it-on-one-computer"),
    ),
    "console": (("console", "../how-to/use-the-console.md"),),
    "context add": (("contexts", "#contexts"),),
    "status": (("witnesses", "../how-to/run-with-witnesses.md"),),
    "manifest schema": (
        ("JSON Schema", "manifest.schema.json"),
        ("editors", "../how-to/editor.md"),
    ),
    "manifest convert": (("manifest files", "#manifest-files"),),
    "manifest set": (("recovery secrets", "#recovery-secrets"),),
    "manifest plan": (("plans", "plan.md"),),
    "manifest update apply": (
        ("signed approvals", "transparency-log.md#signed-approvals"),
        ("updates with several parties", "../how-to/update-with-several-parties.md"),
        ("recovery secrets", "#recovery-secrets"),
    ),
    "recover upload": (("recovery", "../how-to/recovery.md"),),
    "recover sign": (("keys on tokens", "../how-to/hsm-identities.md"),),
    "log key": (("transparency log", "transparency-log.md"),),
    "log policy check": (("witnesses", "transparency-log.md#witnesses"),),
    "doctor": (("report on your hardware", "../how-to/report-on-your-hardware.md"),),
    "evidence export": (("evidence files", "evidence.md"),),
    "evidence verify": (
        ("audit a deployment", "../how-to/audit-a-deployment.md"),
        ("report as a page", "../how-to/audit-a-deployment.md#read-the-page"),
    ),
    "watch": (("watch the log", "../how-to/watch-the-log.md"),),
    "trust show": (("rollbacks", "../how-to/notice-a-rollback.md"),),
    "trust accept": (("who began a deployment", "../explanation/who-began-a-deployment.md"),),
    "workload list": (
        ("audit trail", "activations.md#audit-trail"),
        ("counters", "activations.md#counters"),
    ),
    "workload status": (("lineages", "workload-channel.md#lineage"),),
    "workload roots": (("marble roots", "manifest.md#renewal"),),
    "workload revoke": (("revocation", "workload-channel.md#revocation"),),
    "workload revocations": (("revocation", "workload-channel.md#revocation"),),
    "workload refused": (("refused activations", "activations.md#refused-activations"),),
    "attest explain": (("rehearse a TCB recovery", "../how-to/rehearse-a-tcb-recovery.md"),),
    "store init": (("several coordinators", "../how-to/run-several-coordinators.md"),),
    "store copy": (
        ("move to a database", "../how-to/run-several-coordinators.md#move-to-a-database"),
    ),
    "store verify": (("files of the log", "transparency-log.md#files"),),
    "backup": (("back up and restore", "../how-to/back-up-and-restore.md"),),
    "restore": (("back up and restore", "../how-to/back-up-and-restore.md"),),
    "collateral fetch": (("collateral", "../how-to/collateral.md"),),
}
"""Pages about a command, by its words: titles and targets."""


class _Leaf(NamedTuple):
    """A command without commands below. ``words`` are without "keyhouse"."""

    words: str
    command: click.Command


class _Row(NamedTuple):
    """An argument or an option in the help of a command."""

    section: str
    term: str
    meaning: str


@cache
def _leaves() -> Mapping[str, tuple[_Leaf, ...]]:
    """Return the commands by section of the first help page, in its order."""
    known = below(ROOT)
    return {
        section: tuple(leaf for entry in entries for leaf in _below(entry.name, known[entry.name]))
        for section, entries in COMMANDS.items()
        if section
    }


def _below(words: str, command: click.Command) -> Iterator[_Leaf]:
    if not isinstance(command, click.Group):
        yield _Leaf(words, command)
        return
    for name, each in below(command).items():
        if not each.hidden:
            yield from _below(f"{words} {name}", each)


@cache
def _first_names() -> Mapping[int, str]:
    """Return the first words of each command, by the identity of its function."""
    names: dict[int, str] = {}
    for leaves in _leaves().values():
        for leaf in leaves:
            names.setdefault(id(leaf.command.callback or leaf.command), leaf.words)
    return names


def _other_name(leaf: _Leaf) -> str:
    """Return the first words of the command ``leaf`` if these are other words, or ""."""
    first = _first_names()[id(leaf.command.callback or leaf.command)]
    return "" if first == leaf.words else first


def _rows(leaf: _Leaf) -> list[_Row]:
    """Return the arguments, with the section "", and the options of a command."""
    rows = []
    with leaf.command.context_class(leaf.command) as context:
        for each in leaf.command.get_params(context):
            record = each.get_help_record(context)
            section = "" if isinstance(each, click.Argument) else section_of(each)
            if record is not None and section != GENERAL:
                rows.append(_Row(section, record[0], " ".join(record[1].split())))
    return rows


@cache
def _shared() -> Mapping[tuple[str, str], tuple[str, ...]]:
    """Return the sections of each option that several commands share, by term and meaning."""
    counts = Counter(row for row in _every_row() if row.section)
    shared: dict[tuple[str, str], tuple[str, ...]] = {}
    for row, count in counts.items():
        if count >= _SHARED:
            key = (row.term, row.meaning)
            shared[key] = (*shared.get(key, ()), row.section)
    return shared


def _every_row() -> Iterator[_Row]:
    return (row for leaves in _leaves().values() for leaf in leaves for row in _rows(leaf))


def _by_section(rows: Iterable[_Row]) -> dict[str, list[_Row]]:
    """Return those of ``rows`` that commands share, by the section of the shared option.

    An option outside the sections, as of `keyhouse context add`, is in the first section.
    """
    groups: dict[str, list[_Row]] = {}
    for row in rows:
        sections = _shared().get((row.term, row.meaning), ())
        if sections:
            section = row.section if row.section in sections else sections[0]
            groups.setdefault(section, []).append(row)
    return groups


def _list() -> str:
    parts = []
    for section, leaves in _leaves().items():
        rows = []
        for leaf in leaves:
            same = _other_name(leaf)
            effect = f"The same as `keyhouse {same}`" if same else _effect(leaf)
            target = f"keyhouse {same or leaf.words}".replace(" ", "-")
            rows.append((f"[`keyhouse {leaf.words}`](#{target})", effect))
        parts.append(f"### {section}\n\n{_table(('Command', 'Effect'), rows)}")
    return "\n".join(parts)


def _options() -> str:
    rows_by_section = _by_section(row for row in _every_row() if row.section)
    return "\n".join(
        f"### {section} options\n\n{_terms('Option', dict.fromkeys(rows))}"
        for section, rows in rows_by_section.items()
    )


def _details() -> str:
    return "\n".join(
        _detail(leaf) for leaves in _leaves().values() for leaf in leaves if not _other_name(leaf)
    )


def _detail(leaf: _Leaf) -> str:
    if leaf.words in _OWN_PARSER:
        page = _OWN_PARSER[leaf.words]
        return f"### keyhouse {leaf.words}\n\n{_effect(leaf)}: [settings]({page}).\n"
    with leaf.command.context_class(leaf.command) as context:
        usage = " ".join(leaf.command.collect_usage_pieces(context))
    rows = _rows(leaf)
    own = [row for row in rows if (row.term, row.meaning) not in _shared()]
    parts = [
        f"### keyhouse {leaf.words}",
        f"```text\nkeyhouse {leaf.words} {usage}\n```",
        *_paragraphs(leaf.command.help or ""),
        *([_terms("Argument or option", own).rstrip("\n")] if own else []),
        *_references(leaf.words, rows),
    ]
    return "\n\n".join(parts) + "\n"


def _effect(leaf: _Leaf) -> str:
    """Return the first sentence of the help."""
    return _prose(summary_of(leaf.command).partition(". ")[0])


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help; an example becomes a block of code."""
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("\b"):
            lines = [line.removeprefix("  ") for line in paragraph.splitlines()[2:]]
            yield "```sh\n{}\n```".format("\n".join(lines))
        else:
            yield _prose(" ".join(paragraph.split()))


def _references(words: str, rows: Iterable[_Row]) -> Iterator[str]:
    """Yield the shared options of a command, and the pages about the command."""
    texts = []
    for section, used in _by_section(rows).items():
        link = f"[{section} options](#{section.lower().replace(' ', '-')}-options)"
        names = ", ".join(f"`{row.term.split(', ')[-1].split()[0]}`" for row in used)
        whole = sum(section in each for each in _shared().values())
        texts.append(link if len(used) == whole else f"{link} ({names})")
    if texts:
        yield f"Shared options: {'; '.join(texts)}."
    if words in _PAGES:
        yield f"See {', '.join(f'[{title}]({target})' for title, target in _PAGES[words])}."


def _exit_codes() -> str:
    return _table(("Code", "Meaning"), ((str(code), text) for code, text in EXIT_CODES.items()))


def _terms(head: str, rows: Iterable[_Row]) -> str:
    return _table((head, "Meaning"), ((f"`{row.term}`", _prose(row.meaning)) for row in rows))


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    columns = tuple(head)
    lines = [columns, ("---",) * len(columns), *rows]
    return "".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n" for cells in lines
    )


def _prose(text: str) -> str:
    """Return ``text`` with options, variables and JSON as code."""
    return re.sub(r"\{.*\}|\$\w+|(?<![\w-])--?[a-z][\w-]*|(?<!\w)\*(?!\w)", r"`\g<0>`", text)


SECTIONS: Final = {
    "command list": _list,
    "command options": _options,
    "commands": _details,
    "exit codes": _exit_codes,
}
"""The generated sections of ``commands.md``, by name."""
