"""What the site adds to the pages, which stay plain Markdown where the repository is browsed."""

from pathlib import Path
from typing import Any, ClassVar, Final

import yaml
from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

__all__ = ["LandingPage", "SearchWords"]

_SYNONYMS: Final = Path(__file__).with_name("synonyms.yaml")


class SearchWords(SphinxTransform):
    """Puts the words of ``synonyms.yaml`` into the index, where the search finds them."""

    default_priority: ClassVar[int] = 800  # before Sphinx collects the index (850)

    def apply(self, **_: Any) -> None:
        """Add an index entry for each word of this page."""
        words = yaml.safe_load(_SYNONYMS.read_text(encoding="utf-8")).get(self.env.docname, [])
        section = next(iter(self.document.findall(nodes.section)), None)
        if words and section is not None:
            entries = [("single", word, section["ids"][0], "", None) for word in words]
            parent = section.parent
            parent.insert(parent.index(section), addnodes.index(entries=entries))


class LandingPage(SphinxTransform):
    """Marks the sentence and the doors of the landing page for the style sheet."""

    default_priority: ClassVar[int] = 800

    def apply(self, **_: Any) -> None:
        """Give the first paragraph and the first list of the page a class."""
        if self.env.docname != self.config.root_doc:
            return
        for kind, name in ((nodes.paragraph, "lead"), (nodes.bullet_list, "doors")):
            first = next(iter(self.document.findall(kind)), None)
            if first is not None:
                first["classes"].append(name)
